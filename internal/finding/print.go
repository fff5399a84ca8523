package finding

// Print prints a finding and a note, if not empty, between the lines of a command that runs.
type Print func(from From, f Finding, note string)

// From is the node that prints, and the form of its lines.
type From struct {
	JSON      bool
	Mixed     bool // the lines of all nodes go to one log
	Host, Job string
	Rank      int // of the node; -1: not known
}
