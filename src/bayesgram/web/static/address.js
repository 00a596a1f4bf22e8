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

// Where the release of this name is, or the best one.
export function placeOf(name, { releases, ranking }) {
  const at = releases.findIndex((release) => release.name === name);
  return at < 0 ? ranking[0] : at;
}
