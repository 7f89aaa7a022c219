"""What the simulated cloud of an afternoon sells."""

from typing import Any

OFFERS: list[dict[str, Any]] = [
    {"provider": "mock", "gpu": "RTX-4090", "vram_gb": 24, "price_per_hour": "0.40", "boot_s": 20, "capacity": 2},
    {
        "provider": "mock",
        "gpu": "RTX-3090",
        "vram_gb": 24,
        "price_per_hour": "0.30",
        "boot_s": 40,
        "capacity": 1,
        "disk_price": "0.0001",
    },
    {
        "provider": "mock",
        "gpu": "A100-80GB",
        "vram_gb": 80,
        "price_per_hour": "1.50",
        "boot_s": 60,
        "traffic_price": "0.01",
    },
    {
        "provider": "mock",
        "gpu": "L4",
        "vram_gb": 24,
        "price_per_hour": "0.35",
        "boot_s": 30,
        "capabilities": {"stop": "hard"},
    },
]
