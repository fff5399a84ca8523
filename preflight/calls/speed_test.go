package calls

import (
	"testing"

	"launch/internal/sidechannel"
)

func TestTheFastestOfSeveralMeasurementsCounts(t *testing.T) {
	const mbit = 1e6 / 8
	for _, tt := range []struct {
		name  string
		speed float64
		more  []float64 // of further measurements; -1: it fails; 0: too fast to say
		want  float64
		asked int
		cut   bool // less than all arrives
	}{
		{"a packet lost at the wrong moment", 1.8 * mbit, []float64{60 * mbit}, 60 * mbit, 1, false},
		{"two of them", 1.8 * mbit, []float64{1.2 * mbit, 60 * mbit}, 60 * mbit, 2, false},
		{"then too fast to say", 1.8 * mbit, []float64{0}, 0, 1, false},
		{"a slow path whose short queue loses packets", 0.8 * mbit, []float64{0.7 * mbit, 1.1 * mbit}, 1.1 * mbit, 2, false},
		{"a slow path that takes little", 0.8 * mbit, []float64{0, 0}, 0.8 * mbit, 2, true},
		{"a fast path", 60 * mbit, nil, 60 * mbit, 0, false},
		{"an unknown speed", 0, nil, 0, 0, false},
		{"no further measurement", 1.8 * mbit, []float64{-1}, 1.8 * mbit, 1, false},
	} {
		asked := 0
		got := fastest(tt.speed, func() (a sidechannel.Answer, ok bool) {
			a.Speed = tt.more[asked]
			if !tt.cut {
				a.Bulk.Out.Arrived = longMessage
			}
			asked++
			return a, a.Speed >= 0
		})
		if got != tt.want || asked != tt.asked {
			t.Errorf("%s: %.2f Mbit/s after %d more, want %.2f after %d", tt.name, got/mbit, asked, tt.want/mbit, tt.asked)
		}
	}
}
