// What somebody looks at is in the address, after #: a reload, a bookmark and the back button keep it. It stays in the
// browser, which doesn't send that part.

export const part = () => location.hash.slice(1).split("?")[0];

export const said = () => new URLSearchParams(location.hash.split("?").slice(1).join("?"));

// Put into the address what this part shows, without another step back; what is empty is left out.
export function keep(name, values) {
  if (document.getElementById(name).hidden) return; // a late answer: another part is shown by now
  const told = new URLSearchParams(Object.entries(values).flatMap(([key, value]) =>
    [value].flat().filter((each) => each !== "" && each !== null && each !== undefined).map((each) => [key, each])));
  const query = told.toString();
  history.replaceState(null, "", `#${name}${query ? `?${query}` : ""}`);
}

let open = ""; // the name of the release that somebody looked at last

export const openRelease = (name) => { open = name; };

// Where the release of this name is; else the one that is open, or that the server suggests to begin with.
export function placeOf(name, { releases, defaults }) {
  const find = (wanted) => releases.findIndex((release) => release.name === wanted);
  const at = find(name), opened = find(open);
  if (at >= 0) return at;
  return opened < 0 ? defaults.release : opened;
}
