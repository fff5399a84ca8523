package fabric

import "testing"

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
	} {
		if got := gpuVendor(PCI{Vendor: tt.vendor, Class: tt.class}); got != tt.want {
			t.Errorf("%s, class %s: %q, not %q", tt.vendor, tt.class, got, tt.want)
		}
	}
}
