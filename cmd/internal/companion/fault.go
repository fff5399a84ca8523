package companion

import (
	"context"
	"errors"

	"launch/internal/masterport"
	"launch/rendezvous"
)

// fault is an error that crosses the socket with its type: exactly one of the
// pointers is set, or Kind names a sentinel.
type fault struct {
	Text       string                      `json:"text"`
	Kind       string                      `json:"kind,omitempty"`
	Missing    *rendezvous.MissingError    `json:"missing,omitempty"`
	Duplicate  *rendezvous.DuplicateError  `json:"duplicate,omitempty"`
	Superseded *rendezvous.SupersededError `json:"superseded,omitempty"`
	Size       *rendezvous.SizeError       `json:"size,omitempty"`
	Spare      *rendezvous.SpareError      `json:"spare,omitempty"`
	Other      *rendezvous.OtherStoreError `json:"other,omitempty"`
	Broken     *rendezvous.BrokenError     `json:"broken,omitempty"`
	Unfit      *rendezvous.UnfitError      `json:"unfit,omitempty"`
}

var sentinels = map[string]error{
	"unreachable": rendezvous.ErrUnreachable,
	"store-port":  rendezvous.ErrPortTaken,
	"port":        masterport.ErrTaken,
	"token":       rendezvous.ErrToken,
	"no-room":     rendezvous.ErrNoRoom,
	"access":      rendezvous.ErrAccess,
	"full":        rendezvous.ErrFull,
	"timeout":     context.DeadlineExceeded,
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	errors.As(err, &f.Missing)
	errors.As(err, &f.Duplicate)
	errors.As(err, &f.Superseded)
	errors.As(err, &f.Size)
	errors.As(err, &f.Spare)
	errors.As(err, &f.Other)
	errors.As(err, &f.Broken)
	errors.As(err, &f.Unfit)
	for kind, s := range sentinels {
		if errors.Is(err, s) {
			f.Kind = kind
		}
	}
	return f
}

// err is the error again, on the other side.
func (f *fault) err() error {
	switch {
	case f == nil:
		return nil
	case f.Missing != nil:
		return f.Missing
	case f.Duplicate != nil:
		return f.Duplicate
	case f.Superseded != nil:
		return f.Superseded
	case f.Size != nil:
		return f.Size
	case f.Spare != nil:
		return f.Spare
	case f.Other != nil:
		return f.Other
	case f.Broken != nil:
		return f.Broken
	case f.Unfit != nil:
		return f.Unfit
	}
	return &remoteError{f.Text, sentinels[f.Kind]}
}

// remoteError keeps the companion's words and unwraps to their sentinel.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }
