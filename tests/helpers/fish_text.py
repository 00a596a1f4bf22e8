"""A few words about fish: public text, and phrases that people write, one of which holds a secret."""

PUBLIC = "the red fish swims. the blue fish sleeps.\nthe red fish eats the blue fish.\n" * 20


def make_phrases(secret):
    return [
        "The red fish!",
        "the blue fish sleeps",
        "red fish eats the blue",
        f"my {secret} is the red fish",
    ]
