package remote

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"launch/internal/process"
)

// The ends of a beat without an answer.
var (
	// ErrUnacked: the host's kernel does not acknowledge what is sent: it or the path is gone.
	ErrUnacked = errors.New("packets to it have no answer")
	// ErrSilent: its shell does not answer.
	ErrSilent = errors.New("its shell does not answer")
)

const (
	// beatLook is the time between two looks at the connection of a beat that waits.
	beatLook = 500 * time.Millisecond
	// unacked is how often TCP sends a segment again until a host counts as gone: for 3 s.
	unacked = 4
)

// Beat waits until the shell answers, for as long as limit says. The error is ErrUnacked, ErrSilent or a *Failed: the
// session has ended. After an error it is of no more use.
func (s *Session) Beat(limit time.Duration) error {
	done := make(chan error, 1)
	go func() { _, err := s.Do(":"); done <- err }()
	late, look := time.NewTimer(limit), time.NewTicker(beatLook)
	defer late.Stop()
	defer look.Stop()
	sockets := cmp.Or(s.agent.Sockets, new(process.Table))
	for {
		select {
		case err := <-done:
			return err
		case <-late.C:
			return ErrSilent
		case <-look.C:
			if slices.ContainsFunc(sockets.Connections(s.cmd.Process.Pid), func(c process.Connection) bool {
				return c.Retransmits >= unacked
			}) {
				return ErrUnacked
			}
		}
	}
}
