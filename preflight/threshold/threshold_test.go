package threshold

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestThresholdsAreReadInTheirUnits(t *testing.T) {
	for text, want := range map[string]float64{
		"shm.size=64MiB": 64 << 20, "shm.size=1g": 1e9, "shm.size=1Gi": 1 << 30, "shm.size=512k": 512e3,
		"shm.size=1.5 KiB": 1536,
		"shm.size=0":       0, "shm.size=100B": 100, "user.limit=200ms": 0.2, "user.limit=1m30s": 90, " shm.size = 2M ": 2e6,
	} {
		_, got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	if v, ok := Number.parse("2.5"); !ok || v != 2.5 {
		t.Errorf("2.5 is %v", v)
	}
}

func TestAThresholdThatCannotBeIsRefusedWithOneThatCan(t *testing.T) {
	for text, want := range map[string]string{
		"shm.szie=1G": `did you mean "shm.size"?`, "nothing=1": "the names are gpu.busy", "shm.size": "has no value",
		"shm.size=":   "not a number of bytes",
		"shm.size=-1": "not a number of bytes", "shm.size=1X": "not a number of bytes",
		"shm.size=1e999": "not a number of bytes", "shm.size=NaN": "not a number of bytes", "user.limit=5": "not a duration",
		"user.limit=-5s": "not a duration", "": "no threshold",
	} {
		_, _, err := Parse(text)
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(e.What, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
			continue
		}
		if _, _, err := Parse(e.Fix); err != nil {
			t.Errorf("%q: the example %q is refused: %v", text, e.Fix, err)
		}
	}
}

func TestTheExampleOfEachThresholdIsItsDefault(t *testing.T) {
	for _, th := range All() {
		name, v, err := Parse(th.example())
		if err != nil || name != th.Name || v != th.Default {
			t.Errorf("%s reads as %s=%v (%v), want %v", th.example(), name, v, err, th.Default)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("shm.size=64MiB")
	f.Add("user.limit=5s")
	f.Fuzz(func(t *testing.T, text string) {
		_, v, err := Parse(text)
		if err == nil && (v < 0 || math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q is %v", text, v)
		}
	})
}
