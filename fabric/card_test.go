package fabric

import (
	"testing"
	"testing/fstest"
)

// Hygon's processors have its vendor too, so that the class decides.
func TestWhichFunctionsAreGPUs(t *testing.T) {
	for _, tt := range []struct{ vendor, class, want string }{
		{vendorNVIDIA, "0x030200", "nvidia"},
		{vendorNVIDIA, "0x068000", ""},
		{vendorAMD, "0x038000", "amd"},
		{vendorAMD, "0x120000", "amd"},
		{vendorAMD, "0x060400", ""},
		{vendorHygon, "0x0b4000", "amd"},
		{vendorHygon, "0x038000", "amd"},
		{vendorHygon, "0x060000", ""},
		{"0x1a03", "0x030000", ""},
		{"0x1da3", "0x120000", "habana"},
		{"0x19e5", "0x120000", "huawei"},
		{"0x19e5", "0x030000", ""}, // the console of its servers
		{"0x9999", "0x038000", "metax"},
		{"0x1ed5", "0x030000", "mthreads"},
		{"0x1e3e", "0x030200", "iluvatar"},
		{"0x1e52", "0x120000", "tenstorrent"},
		{"0x1d95", "0x120000", "other"},
		{vendorXilinx, "0x120000", ""}, // an FPGA
		{vendorIntel, "0x120000", ""},  // an NPU
		{vendorGoogle, "0x120000", ""}, // a TPU
		{"0x1af4", "0x038000", ""},     // a display of a guest
	} {
		if got := gpuVendor(PCI{Vendor: tt.vendor, Class: tt.class}); got != tt.want {
			t.Errorf("%s, class %s: %q, not %q", tt.vendor, tt.class, got, tt.want)
		}
	}
	for _, tt := range []struct {
		p    PCI
		want string
	}{
		{PCI{Vendor: vendorIntel, Class: "0x038000", Addr: "0000:1b:00.0", Device: "0x0bda"}, "intel"},
		{PCI{Vendor: vendorIntel, Class: "0x030000", Addr: "0000:41:00.0", Device: "0xe211"}, "intel"},
		{PCI{Vendor: vendorIntel, Class: "0x030000", Addr: "0000:00:02.0", Device: "0xa780"}, ""},
		{PCI{Vendor: VendorAmazon, Class: "0x088000", Device: "0x7364"}, "amazon"},
		{PCI{Vendor: VendorAmazon, Class: "0x088000", Device: "0x8250"}, ""},
		{PCI{Vendor: VendorAmazon, Class: "0x020000", Device: "0xefa2"}, ""},
	} {
		if got := gpuVendor(tt.p); got != tt.want {
			t.Errorf("%+v: %q, not %q", tt.p, got, tt.want)
		}
	}
}

// ROCm's count has each part of a divided GPU, and no GPU that a container was not given.
func TestGPUsOfROCm(t *testing.T) {
	const nodes = "class/kfd/kfd/topology/nodes/"
	sys := fstest.MapFS{nodes + "0/gpu_id": {Data: []byte("0\n")}, nodes + "1/gpu_id": {Data: []byte("38744\n")},
		nodes + "2/gpu_id": {Data: []byte("8001\n")}, nodes + "3/name": {}}
	if n := kfd(sys); n != 2 {
		t.Errorf("%d GPUs, not 2", n)
	}
	if n := kfd(fstest.MapFS{}); n != 0 {
		t.Errorf("%d GPUs without a driver", n)
	}
}
