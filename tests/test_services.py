"""The real services that tests start are really there."""

import redis


def test_redis_answers(redis_url: str) -> None:
    """A value that was set is there."""
    with redis.Redis.from_url(redis_url) as client:
        client.set("a", "1")
        assert client.get("a") == b"1"
