"""The demo runs on a few people, and knows its steps beforehand."""

from contextlib import contextmanager

from bayesgram.demo import pipeline
from bayesgram.mechanisms.series import Series
from bayesgram.releases.release import Release
from bayesgram.synthetic.population import Population


def test_the_bar_of_the_demo_knows_its_steps(tmp_path):
    begun = []

    @contextmanager
    def step(label):
        begun.append(label)
        yield

    results = pipeline.run(
        tmp_path / "demo", Population(users=300, seed=7), sentences=600, step=step
    )
    assert len(begun) == pipeline.number_of_steps(300)
    assert {path.name for path in (tmp_path / "demo").iterdir()} <= set(pipeline.CONTENTS)
    assert len(results.headlines) == 3
    check_the_weeks(results.followed.weeks, tmp_path / "demo")
    pipeline.run(tmp_path / "demo", Population(300), sentences=600, step=step, force=True)


def check_the_weeks(weekly, folder):
    """They are one series, each follows the one before, and the folder may be moved."""
    assert weekly.sentence.startswith("The 4 weeks are a series: ε = 1, δ = 1e-07 (PROVED) is for")
    series = Series.open(folder.rename(folder.with_name("moved")) / "weeks.series")
    state = series.read_state()
    assert state.drawn("release") == 4
    for week, run in enumerate(state.runs, start=1):
        card = Release.load(series.path / run.output).card
        assert card.ledger["series"]["release"] == week
        assert len((card.chain or {"links": []})["links"]) == week - 1
    [entry] = series.ledger.read().reservations
    assert entry.description["output"] == "weeks.series"
    folder.with_name("moved").rename(folder)


def make_results(*, kl=0.04, public_kl=0.4, ngrams=(), leaked=0):
    rows = [
        {"release": "public text alone", "epsilon": 0.0, "kl": public_kl},
        {"release": "posterior", "epsilon": 0.1, "kl": 0.3},
        {"release": "posterior", "epsilon": 1.0, "kl": kl},
    ]
    found = pipeline.DiscoveredNgrams("ε = 1", 30.0, 5.0, list(ngrams), [])
    return pipeline.DemoResults(rows, [], [], [], None, {}, 6, leaked, found, None)


def test_three_results_lead_and_each_fits_into_a_line():
    words = [("the new lumora", 3, 99.0), ("lumora", 1, 90.0), ("flumpy", 1, 80.0)]
    good = make_results(ngrams=words).headlines
    assert good == [
        "The release by posterior (ε = 1) removes 90% of the error that public text alone has.",
        "Discovery finds 3 n-grams that public text lacks, such as lumora and flumpy.",
        "None of 6 planted secrets can be read from the releases.",
    ]
    poor = make_results(kl=0.5, leaked=2).headlines
    assert poor == [
        "The release by posterior (ε = 1) is no better than public text: there are too few users.",
        "Discovery finds no n-gram that public text lacks: there are too few users.",
        "2 of 6 planted secrets can be read from the releases.",
    ]
    assert all(len(line) < 100 for line in [*good, *poor])
