"""What the simulated market sells when it is told nothing else: prices as they were listed in public in 2026.

All of it is sold by provider `mock`; where a price was seen stands in the region and the host.
"""

from typing import Any, Final

# seen at, region, gpu, GB per GPU, GPUs, USD per hour, USD per hour as spot
_SEEN: Final[tuple[tuple[str, str, str, float, int, str, str | None], ...]] = (
    ("aws", "us-east-1", "A10G", 24, 1, "1.006", None),
    ("aws", "us-east-1", "L4", 24, 1, "0.8048", None),
    ("aws", "us-east-1", "L40S", 48, 1, "1.861", None),
    ("aws", "us-east-1", "T4", 16, 1, "0.526", None),
    ("gcp", "us-east1", "L4", 24, 1, "0.708", None),
    ("gcp", "us-east1", "T4", 16, 1, "0.51", None),
    ("hyperstack", "canada-1", "A100-PCIe-80GB", 80, 1, "1.35", None),
    ("hyperstack", "canada-1", "H100-PCIe", 80, 1, "1.9", None),
    ("hyperstack", "canada-1", "L40", 48, 1, "1", None),
    ("jarvislabs", "in2", "L4", 24, 1, "0.44", None),
    ("jarvislabs", "in1", "RTX-PRO-6000", 96, 1, "2.19", None),
    ("lambda", "us-east-1", "A10", 24, 1, "1.29", None),
    ("lambda", "us-west-2", "A100-SXM-40GB", 40, 1, "1.99", None),
    ("lambda", "us-east-1", "A6000", 48, 1, "1.09", None),
    ("lambda", "us-east-1", "B200", 180, 1, "6.99", None),
    ("lambda", "us-east-1", "H100-PCIe", 80, 1, "3.29", None),
    ("lambda", "us-east-1", "H100-SXM", 80, 1, "4.29", None),
    ("nebius", "eu-north1", "H100-SXM", 80, 1, "2.95", "1.25"),
    ("nebius", "eu-north1", "H200", 141, 1, "3.5", "1.45"),
    ("nebius", "eu-north1", "L40S", 48, 1, "1.5484", None),
    ("runpod", "any", "A100-PCIe-80GB", 80, 1, "1.39", None),
    ("runpod", "any", "A100-SXM-80GB", 80, 1, "1.59", None),
    ("runpod", "any", "A40", 48, 1, "0.44", None),
    ("runpod", "any", "A5000", 24, 1, "0.27", None),
    ("runpod", "any", "A6000", 48, 1, "0.53", None),
    ("runpod", "any", "H100-PCIe", 80, 1, "2.89", None),
    ("runpod", "any", "H100-SXM", 80, 1, "3.29", None),
    ("runpod", "any", "H200", 141, 1, "4.59", None),
    ("runpod", "any", "L40S", 48, 1, "0.99", None),
    ("runpod", "any", "RTX-3090", 24, 1, "0.5", None),
    ("runpod", "any", "RTX-4090", 24, 1, "0.74", None),
    ("tensordock", "any", "A100-PCIe-80GB", 80, 1, "1.27", None),
    ("tensordock", "any", "A100-SXM-80GB", 80, 1, "0.87", None),
    ("tensordock", "any", "H100-SXM", 80, 1, "2.25", None),
    ("tensordock", "any", "RTX-6000-Ada", 48, 1, "0.72", None),
    ("thundercompute", "any", "A100-80GB", 80, 1, "0.78", None),
    ("thundercompute", "any", "A6000", 48, 1, "0.35", None),
    ("vast", "us-ok", "A100-PCIe-80GB", 80, 1, "0.87", None),
    ("vast", "us-ga", "A100-SXM-40GB", 40, 1, "0.76", None),
    ("vast", "si", "A100-SXM-40GB", 40, 2, "1.49", None),
    ("vast", "au", "A40", 45, 1, "0.67", None),
    ("vast", "bg", "H100-NVL", 94, 1, "2.08", None),
    ("vast", "us-tx", "H100-SXM", 80, 1, "1.87", None),
    ("vast", "th", "H100-SXM", 80, 2, "3.73", None),
    ("vast", "fr", "H200", 140, 1, "2.65", None),
    ("vast", "us-mi", "H200", 140, 2, "5.18", None),
    ("vast", "tw", "L40S", 45, 1, "0.6", None),
    ("vast", "it", "RTX-3060", 12, 1, "0.27", None),
    ("vast", "ca-qc", "RTX-3070", 8, 1, "0.48", None),
    ("vast", "ca-qc", "RTX-3090", 24, 2, "0.33", None),
    ("vast", "gb", "RTX-4060-Ti", 16, 1, "0.13", None),
    ("vast", "de", "RTX-4090", 24, 1, "0.4", None),
    ("vast", "fi", "RTX-4090", 24, 2, "0.79", None),
    ("vast", "us-tx", "RTX-5090", 32, 1, "0.48", None),
    ("vast", "tw", "RTX-5090", 32, 2, "0.93", None),
    ("vast", "jp", "RTX-6000-Ada", 48, 1, "0.37", None),
    ("vast", "us-ny", "RTX-PRO-6000", 96, 1, "1.13", None),
    ("verda", "fin-03", "B200", 180, 1, "4.89", "1.712"),
    ("verda", "fin-03", "B300", 262, 1, "6.99", "2.447"),
    ("verda", "fin-02", "H100-SXM", 80, 1, "2.29", "0.8015"),
    ("verda", "fin-02", "H200", 141, 1, "3.39", None),
)
# seen at -> (stop class, trust, seconds to boot, USD per GB of disk and hour, USD per GB of traffic)
_WAYS: Final[dict[str, tuple[str, str, int, str, str]]] = {
    "aws": ("boot", "datacenter", 4, "0.00011", "0.09"),
    "gcp": ("hard", "datacenter", 4, "0.00014", "0.12"),
    "hyperstack": ("late", "datacenter", 5, "0", "0"),
    "jarvislabs": ("late", "datacenter", 3, "0.00014", "0"),
    "lambda": ("none", "datacenter", 6, "0", "0"),
    "nebius": ("late", "datacenter", 5, "0.0001", "0"),
    "runpod": ("boot", "datacenter", 3, "0.00014", "0"),
    "tensordock": ("late", "verified", 4, "0.00007", "0"),
    "thundercompute": ("late", "verified", 3, "0", "0"),
    "vast": ("boot", "verified", 2, "0.00028", "0.005"),
    "verda": ("late", "datacenter", 5, "0.00027", "0"),
}


def _offers() -> list[dict[str, Any]]:
    offers = []
    for number, (source, region, gpu, vram_gb, count, price, spot_price) in enumerate(_SEEN):
        stop, trust, boot_s, disk_price, traffic_price = _WAYS[source]
        offers.append(
            {
                "provider": "mock",
                "region": f"{source}-{region}",
                "host": f"{source}-{number + 1:02d}",
                "gpu": gpu,
                "vram_gb": vram_gb,
                "gpu_count": count,
                "price_per_hour": price,
                "spot_price": spot_price,
                "capacity": 4,
                "boot_s": boot_s,
                "disk_price": disk_price,
                "traffic_price": traffic_price,
                "reliability": 0.97 if trust == "verified" else 0.995,
                "trust": trust,
                "capabilities": {"stop": stop, "labels": True, "token": True, "bills": False},
            }
        )
    return offers


DEFAULT_MARKET: Final = _offers()
