package calls

import "launch/internal/sidechannel"

const (
	// doubtful is a speed in bytes per second, 10 Mbit/s, below which a measurement is repeated if it lost packets: one
	// loss at the wrong moment has TCP wait for 0.2 s and more, and halves the window. Slow paths are slower than this.
	doubtful = 10e6 / 8
	// moreSpeeds is how often it is repeated.
	moreSpeeds = 2
)

// fastest returns the speed of a path of which packets were lost while it was measured: the best of several
// measurements. A path whose queue is short because it is slow loses packets in all of them, and is slow in all. again
// measures once more, and returns the answer and whether there is one. 0: unknown, which is faster than doubtful.
func fastest(speed float64, again func() (sidechannel.Answer, bool)) float64 {
	for n := 0; n < moreSpeeds && speed > 0 && speed < doubtful; n++ {
		a, ok := again()
		switch {
		case !ok:
			return speed
		case a.Speed == 0 && a.Bulk.Out.Arrived == longMessage: // before the window had grown
			return 0
		}
		speed = max(speed, a.Speed)
	}
	return speed
}
