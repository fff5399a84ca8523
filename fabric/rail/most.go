package rail

import "launch/fabric"

// cardRates are what one port of a card carries at most, in Gb/s, by hca_type (the data sheets of Connect-IB and
// ConnectX-2 to ConnectX-8: on InfiniBand QDR, FDR, EDR, HDR, NDR, XDR with four lanes).
var cardRates = map[string]float64{"MT26428": 40, "MT4099": 56, "MT4103": 56, "MT4113": 56, "MT4115": 100, "MT4117": 50,
	"MT4119": 100, "MT4121": 100, "MT4123": 200, "MT4125": 200, "MT4127": 50, "MT4129": 400, "MT4131": 800}

// Most returns the rate of a port of an HCA's card at best, in Gb/s; 0 unknown. The rate of a port without a link says
// nothing of that: drivers then report the lowest or a constant one.
func Most(h fabric.HCA) float64 { return cardRates[h.Type] }

// slower reports whether a card is known to be slower than each of the ports in use.
func slower(h fabric.HCA, used []candidate) bool {
	best := Most(h)
	for _, c := range used {
		if best == 0 || best >= c.port.Rate {
			return false
		}
	}
	return len(used) > 0
}
