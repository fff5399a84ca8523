package companion

import "launch/fabric"

// presence is what calls to a node that was lost show.
type presence string

const (
	notCalled presence = ""
	isBack    presence = "answers a call: it or the network stopped for a while, or something drops what it and " +
		"the store send to each other"
	hasEnded  presence = "its machine answers, and launch has ended there"
	isStopped presence = "its machine takes connections, and launch does not answer there: stopped, frozen or without " +
		"processor time"
	isAbsent presence = "nothing answers at its address"
	isHelper presence = "its ranks still send data: launch's own process there is stopped or has ended"
	// isMoved: what answers at its address may be another machine.
	isMoved presence = "another machine may have its address"
	isSlow  presence = "is slow or full, or loses packets"
	isLossy presence = "loses packets"
)

// isShut says what isStopped may be where no connection opens: a full queue looks like a filter of that port, or of
// that process.
const isShut = "its machine answers, and no connection to launch opens there: stopped or frozen, or a filter there " +
	"drops what is for it (nft; of its control group: IPAddressDeny)"

// sight is a presence, and what shows it where that is a path.
type sight struct {
	is   presence
	path string // isLossy and isSlow
	way  string // isMoved and isHelper: why another machine may have its address; "": it has not
	shut bool   // isStopped: no connection opened
	some bool   // isLossy: some new connections never open, and the others at once
	sign fabric.Sign
}

// What isAbsent may be where something answers after all.
const (
	isFiltered = "its machine answers ping, and no call of TCP: a filter or IPsec there or between drops it, or its " +
		"processes are frozen"
	isMute = "ARP alone is answered for its address: its machine hangs, or drops the rest; a switch may answer in its " +
		"place"
)

func (s sight) String() string {
	if s.is == isStopped && s.shut {
		return isShut
	}
	switch {
	case s.is == isAbsent && s.sign == fabric.Pings:
		return isFiltered
	case s.is == isAbsent && s.sign == fabric.ARPAlone:
		return isMute
	case s.is == isHelper && s.way != "":
		return "its ranks still send data: " + s.way
	case s.way != "":
		return s.way
	}
	return string(s.is)
}

// goesOn reports whether a node that was lost takes part in the job.
func (s sight) goesOn() bool { return s.is == isBack || s.is == isHelper || s.badPath() }

// halted reports whether launch there is stopped, or has ended while its ranks go on.
func (s sight) halted() bool { return s.is == isStopped || s.is == isHelper }

// badPath reports whether the path to the node is at fault, and carries something.
func (s sight) badPath() bool { return s.is == isSlow || s.is == isLossy }
