"""The GPUs that we know, one line each; looked up through jobs/gpus.py.

Memory is the nominal size per GPU in GB; speed is dense 16-bit TFLOPS of the tensor units
(bf16, or fp16 where a card has no bf16); bandwidth is of its memory in GB/s. A card sold
under one name in two sizes stands here twice, in a group of that name.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One GPU model.

    name: canonical. groups: wider names that cover it. vram_gb: nominal, per GPU.
    compute_capability: CUDA's (None: not an NVIDIA GPU). tflops_16bit: dense. bandwidth_gb_s: memory.
    aliases: other spellings; case, spaces, `_`, `-` and a maker's prefix make no difference anyway.
    """

    name: str
    groups: tuple[str, ...]
    vram_gb: int
    compute_capability: float | None
    tflops_16bit: float
    bandwidth_gb_s: int
    aliases: tuple[str, ...] = ()

    @property
    def has_bf16(self) -> bool:
        """Whether it computes in bf16 (NVIDIA: since compute capability 8.0)."""
        return self.compute_capability is None or self.compute_capability >= 8.0


# fmt: off
TABLE: tuple[Gpu, ...] = (
    Gpu("RTX2080Ti", (), 11, 7.5, 53.8, 616, ()),
    Gpu("RTX3060-12GB", ("RTX3060",), 12, 8.6, 25.5, 360, ()),
    Gpu("RTX3060-8GB", ("RTX3060",), 8, 8.6, 25.5, 240, ()),
    Gpu("RTX3060Ti", (), 8, 8.6, 32.4, 448, ()),
    Gpu("RTX3070", (), 8, 8.6, 40.6, 448, ()),
    Gpu("RTX3080-10GB", ("RTX3080",), 10, 8.6, 59.5, 760, ()),
    Gpu("RTX3080-12GB", ("RTX3080",), 12, 8.6, 61.3, 912, ()),
    Gpu("RTX3080Ti", (), 12, 8.6, 68.2, 912, ()),
    Gpu("RTX3090", (), 24, 8.6, 71.2, 936, ()),
    Gpu("RTX3090Ti", (), 24, 8.6, 80, 1008, ()),
    Gpu("RTX4060Ti-16GB", ("RTX4060Ti",), 16, 8.9, 44.1, 288, ()),
    Gpu("RTX4060Ti-8GB", ("RTX4060Ti",), 8, 8.9, 44.1, 288, ()),
    Gpu("RTX4070", (), 12, 8.9, 58.3, 504, ()),
    Gpu("RTX4070SUPER", (), 12, 8.9, 71, 504, ("RTX_4070S",)),
    Gpu("RTX4070Ti", (), 12, 8.9, 80.2, 504, ()),
    Gpu("RTX4070TiSUPER", (), 16, 8.9, 88.2, 672, ("RTX_4070S_Ti",)),
    Gpu("RTX4080", (), 16, 8.9, 97.5, 717, ()),
    Gpu("RTX4080SUPER", (), 16, 8.9, 104.4, 736, ("RTX_4080S",)),
    Gpu("RTX4090", (), 24, 8.9, 165.2, 1008, ()),
    Gpu("RTX5060Ti-16GB", ("RTX5060Ti",), 16, 12.0, 47.4, 448, ()),
    Gpu("RTX5060Ti-8GB", ("RTX5060Ti",), 8, 12.0, 47.4, 448, ()),
    Gpu("RTX5070", (), 12, 12.0, 61.7, 672, ()),
    Gpu("RTX5070Ti", (), 16, 12.0, 87.9, 896, ()),
    Gpu("RTX5080", (), 16, 12.0, 112.6, 960, ()),
    Gpu("RTX5090", (), 32, 12.0, 209.5, 1792, ()),
    Gpu("TITANRTX", (), 24, 7.5, 130.5, 672, ()),
    Gpu("QuadroRTX6000", (), 24, 7.5, 130.5, 672, ("Q_RTX_6000",)),
    Gpu("QuadroRTX8000", (), 48, 7.5, 130.5, 672, ("Q_RTX_8000",)),
    Gpu("A2000-12GB", ("A2000",), 12, 8.6, 31.9, 288, ("RTX A2000",)),
    Gpu("A2000-6GB", ("A2000",), 6, 8.6, 31.9, 288, ("RTX A2000",)),
    Gpu("A4000", (), 16, 8.6, 76.7, 448, ("RTX A4000",)),
    Gpu("A4500", (), 20, 8.6, 94.6, 640, ("RTX A4500",)),
    Gpu("A5000", (), 24, 8.6, 111.1, 768, ("RTX A5000",)),
    Gpu("A6000", (), 48, 8.6, 154.8, 768, ("RTX A6000",)),
    Gpu("RTX2000Ada", (), 16, 8.9, 48, 224, ("RTX 2000 Ada Generation",)),
    Gpu("RTX4000Ada", (), 20, 8.9, 106.9, 360, ("RTX 4000 Ada Generation", "RTX 4000 SFF Ada Generation")),
    Gpu("RTX5000Ada", (), 32, 8.9, 261, 576, ("RTX 5000 Ada Generation",)),
    Gpu("RTX6000Ada", (), 48, 8.9, 364.2, 960, ("RTX 6000 Ada Generation",)),
    Gpu("RTXPRO4500", (), 32, 12.0, 202, 896, ("RTX PRO 4500 Blackwell",)),
    Gpu("RTXPRO5000", (), 48, 12.0, 267.8, 1344, ("RTX PRO 5000 Blackwell",)),
    Gpu("RTXPRO6000-WS", ("RTXPRO6000",), 96, 12.0, 503.8, 1792,
        ("RTX PRO 6000 Blackwell Workstation Edition", "RTXPRO6000-WK", "RTX PRO 6000 Blackwell")),
    Gpu("RTXPRO6000-SERVER", ("RTXPRO6000",), 96, 12.0, 503.8, 1597,
        ("RTX PRO 6000 Blackwell Server Edition", "RTX_PRO_6000_S", "RTX PRO Server 6000",
         "RTX PRO 6000 Blackwell")),
    Gpu("RTXPRO6000-MAXQ", ("RTXPRO6000",), 96, 12.0, 438, 1792,
        ("RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell")),
    Gpu("P100", (), 16, 6.0, 19.05, 732, ("P100-PCIE-16GB",)),
    Gpu("P40", (), 24, 6.1, 0.18, 347, ()),
    Gpu("V100-PCIE-16GB", ("V100", "V100-PCIE", "V100-16GB"), 16, 7.0, 112, 897, ()),
    Gpu("V100-SXM-16GB", ("V100", "V100-SXM", "V100-16GB"), 16, 7.0, 125, 897, ("V100-SXM2-16GB", "V100-SXM2")),
    Gpu("V100-SXM-32GB", ("V100", "V100-SXM", "V100-32GB"), 32, 7.0, 125, 898,
        ("V100-SXM2-32GB", "V100-SXM2", "V100-SXM3-32GB")),
    Gpu("T4", (), 16, 7.5, 65, 320, ()),
    Gpu("L4", (), 24, 8.9, 121, 300, ()),
    Gpu("A2", (), 16, 8.6, 18, 200, ()),
    Gpu("A10", (), 24, 8.6, 125, 600, ()),
    Gpu("A10G", (), 24, 8.6, 70, 600, ()),
    Gpu("A16", (), 16, 8.6, 17.9, 200, ()),
    Gpu("A30", (), 24, 8.0, 165, 933, ()),
    Gpu("A40", (), 48, 8.6, 149.7, 696, ()),
    Gpu("L40", (), 48, 8.9, 181, 864, ()),
    Gpu("L40S", (), 48, 8.9, 362, 864, ()),
    Gpu("A100-PCIE-40GB", ("A100", "A100-PCIE", "A100-40GB"), 40, 8.0, 312, 1555, ()),
    Gpu("A100-SXM-40GB", ("A100", "A100-SXM", "A100-40GB"), 40, 8.0, 312, 1555, ("A100-SXM4-40GB", "A100_SXM4")),
    Gpu("A100-PCIE-80GB", ("A100", "A100-PCIE", "A100-80GB"), 80, 8.0, 312, 1935, ("A100 80GB PCIe",)),
    Gpu("A100-SXM-80GB", ("A100", "A100-SXM", "A100-80GB"), 80, 8.0, 312, 2039,
        ("A100-SXM4-80GB", "A100_SXM4", "A100-80GB-SXM")),
    Gpu("H100-PCIE", ("H100", "H100-80GB"), 80, 9.0, 756, 2039, ()),
    Gpu("H100-SXM", ("H100", "H100-80GB"), 80, 9.0, 989, 3350, ("H100 80GB HBM3", "H100-SXM5")),
    Gpu("H100-NVL", ("H100",), 94, 9.0, 835, 3938, ()),
    Gpu("H800", (), 80, 9.0, 989, 3350, ()),
    Gpu("H20", (), 96, 9.0, 148, 4000, ()),
    Gpu("H200-SXM", ("H200",), 141, 9.0, 989, 4800, ()),
    Gpu("H200-NVL", ("H200",), 141, 9.0, 835, 4800, ()),
    Gpu("GH200-96GB", ("GH200",), 96, 9.0, 989, 4000, ("GH200 480GB",)),
    Gpu("GH200-144GB", ("GH200",), 141, 9.0, 989, 4800, ("GH200 144GB HBM3e",)),
    Gpu("B200", (), 180, 10.0, 2250, 8000, ("B200-SXM",)),
    Gpu("GB200", (), 186, 10.0, 2500, 8000, ()),
    Gpu("B300", (), 288, 10.3, 2250, 8000, ("B300 SXM6 AC", "B300 PC", "B300-SXM")),
    Gpu("GB300", (), 288, 10.3, 2500, 8000, ()),
    Gpu("GB10", (), 128, 12.1, 125, 273, ("DGX Spark",)),
    Gpu("MI210", (), 64, None, 181, 1638, ()),
    Gpu("MI250", (), 128, None, 362, 3277, ()),
    Gpu("MI250X", (), 128, None, 383, 3277, ()),
    Gpu("MI300X", (), 192, None, 1307, 5300, ("MI300X OAM",)),
    Gpu("MI325X", (), 256, None, 1307, 6000, ()),
    Gpu("MI350X", (), 288, None, 2300, 8000, ()),
    Gpu("MI355X", (), 288, None, 2500, 8000, ()),
)
# fmt: on
