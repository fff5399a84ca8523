package fabric

import (
	"math"
	"strings"
	"testing"
)

func TestLeadingInt(t *testing.T) {
	for in, want := range map[string]int{"4: ACTIVE": 4, "5: LinkUp": 5, "4:": 4, "0x1003": 0x1003, "-1": -1, "7": 7} {
		if got, err := leadingInt(in); err != nil || got != want {
			t.Errorf("leadingInt(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "ACTIVE", ": 4", "four"} {
		if got, err := leadingInt(in); err == nil {
			t.Errorf("leadingInt(%q) = %d, want an error", in, got)
		}
	}
}

func TestLeadingRate(t *testing.T) {
	for in, want := range map[string]float64{"400 Gb/sec (4X NDR)": 400, "2.5 Gb/sec (1X SDR)": 2.5, "0": 0} {
		if got, err := leadingRate(in); err != nil || got != want {
			t.Errorf("leadingRate(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "fast", "-1 Gb/sec", "NaN", "+Inf Gb/sec"} {
		if got, err := leadingRate(in); err == nil {
			t.Errorf("leadingRate(%q) = %v, want an error", in, got)
		}
	}
}

func TestRateLanes(t *testing.T) {
	for in, want := range map[string]int{"400 Gb/sec (4X NDR)": 4, "25 Gb/sec (1X EDR)": 1, "100 Gb/sec (2X HDR)": 2,
		"120 Gb/sec (12X QDR)": 12,
		"":                     0, "100 Gb/sec": 0, "4X": 0, "100 Gb/sec (X)": 0, "100 Gb/sec (-1X)": 0,
		"100 Gb/sec (99X)": 0} {
		if got := rateLanes(in); got != want {
			t.Errorf("rateLanes(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestProductNamesTheMakerOnce(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"Google", "Google Compute Engine"}: "Google Compute Engine", {"Amazon EC2", "p5.48xlarge"}: "Amazon EC2 p5.48xlarge",
		{"HPE", "HPE CRAY EX235A"}: "HPE CRAY EX235A", {"NVIDIA", "NVIDIA_DGX_Spark"}: "NVIDIA_DGX_Spark",
		{"QEMU", ""}: "QEMU", {"", "x"}: "x", {"", ""}: "",
	} {
		if got := product(in[0], in[1]); got != want {
			t.Errorf("product(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParseMemlock(t *testing.T) {
	row := func(soft string) string {
		return "Limit  Soft Limit  Hard Limit  Units\nMax locked memory   " + soft + "   unlimited   bytes\n"
	}
	for in, want := range map[string]uint64{row("unlimited"): math.MaxUint64, row("65536"): 65536} {
		if got, err := parseMemlock(in); err != nil || got != want {
			t.Errorf("parseMemlock(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "Max locked memory", row("much")} {
		if got, err := parseMemlock(in); err == nil {
			t.Errorf("parseMemlock(%q) = %d, want an error", in, got)
		}
	}
}

func TestParsePortRange(t *testing.T) {
	if got, err := parsePortRange("32768\t60999"); err != nil || got != [2]int{32768, 60999} {
		t.Errorf("parsePortRange = %v, %v", got, err)
	}
	for _, in := range []string{"", "1", "1 2 3", "60999 32768", "1 65536", "a b"} {
		if got, err := parsePortRange(in); err == nil {
			t.Errorf("parsePortRange(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("4: ACTIVE", "DEVTYPE")
	f.Add("400 Gb/sec (4X NDR)", "")
	f.Add("32768\t60999", "a=b")
	f.Add("Max locked memory         8388608              unlimited            bytes", "=")
	f.Add("DEVTYPE=vlan\nINTERFACE=eth0.7", "INTERFACE")
	f.Fuzz(func(t *testing.T, s, key string) {
		leadingInt(s)
		if n := rateLanes(s); n < 0 || n > 12 {
			t.Errorf("rateLanes(%q) = %d", s, n)
		}
		if rate, err := leadingRate(s); err == nil && !(rate >= 0 && rate < math.Inf(1)) {
			t.Errorf("leadingRate(%q) = %v", s, rate)
		}
		if r, err := parsePortRange(s); err == nil && !(0 <= r[0] && r[0] <= r[1] && r[1] < 1<<16) {
			t.Errorf("parsePortRange(%q) = %v", s, r)
		}
		if n, err := parseMemlock(s); err == nil && n == 0 && !strings.Contains(s, "0") {
			t.Errorf("parseMemlock(%q) = 0", s)
		}
		if v := ueventValue(s, key); !strings.Contains(s, v) {
			t.Errorf("ueventValue(%q, %q) = %q, which is not in it", s, key, v)
		}
	})
}
