"""The demo runs on a few people, and knows its steps beforehand."""

from contextlib import contextmanager

from bayesgram.demo import pipeline
from bayesgram.synthetic.population import Population


def test_the_bar_of_the_demo_knows_its_steps(tmp_path):
    begun = []

    @contextmanager
    def step(label):
        begun.append(label)
        yield

    pipeline.run(tmp_path / "demo", Population(users=300, seed=7), sentences=600, step=step)
    assert len(begun) == pipeline.number_of_steps(300)
    assert {path.name for path in (tmp_path / "demo").iterdir()} <= set(pipeline.CONTENTS)
