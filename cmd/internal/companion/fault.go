package companion

import (
	"context"
	"encoding/json"
	"errors"
	"net/rpc"
	"reflect"
	"syscall"

	"launch/internal/masterport"
	"launch/rendezvous"
)

// fault is an error that crosses the socket with its type: a pointer is set, or Kind names a sentinel.
type fault struct {
	Text       string                      `json:"text"`
	Kind       string                      `json:"kind,omitempty"`
	Errno      syscall.Errno               `json:"errno,omitempty"` // of the kernel
	Missing    *rendezvous.MissingError    `json:"missing,omitempty"`
	Duplicate  *rendezvous.DuplicateError  `json:"duplicate,omitempty"`
	Superseded *rendezvous.SupersededError `json:"superseded,omitempty"`
	Size       *rendezvous.SizeError       `json:"size,omitempty"`
	Spare      *rendezvous.SpareError      `json:"spare,omitempty"`
	Other      *rendezvous.OtherStoreError `json:"other,omitempty"`
	Broken     *rendezvous.BrokenError     `json:"broken,omitempty"`
	RunOver    *rendezvous.RunOverError    `json:"run_over,omitempty"`
	Unfit      *rendezvous.UnfitError      `json:"unfit,omitempty"`
}

var sentinels = map[string]error{
	"unreachable": rendezvous.ErrUnreachable,
	"store-port":  rendezvous.ErrPortTaken,
	"port":        masterport.ErrTaken,
	"token":       rendezvous.ErrToken,
	"foreign":     rendezvous.ErrForeign,
	"no-room":     rendezvous.ErrNoRoom,
	"access":      rendezvous.ErrAccess,
	"full":        rendezvous.ErrFull,
	"terminated":  ErrTerminated,
	"yielded":     ErrYielded,
	"named":       ErrNamed,
	"timeout":     context.DeadlineExceeded,
}

// faultOf returns err in the form that crosses the socket.
func faultOf(err error) *fault {
	f := &fault{Text: err.Error()}
	for _, field := range reflect.ValueOf(f).Elem().Fields() {
		if field.Kind() == reflect.Pointer {
			errors.As(err, field.Addr().Interface())
		}
	}
	f.Errno, _ = errors.AsType[syscall.Errno](err)
	for kind, s := range sentinels {
		if errors.Is(err, s) {
			f.Kind = kind
		}
	}
	return f
}

// err returns the error on the other side.
func (f *fault) err() error {
	for _, field := range reflect.ValueOf(f).Elem().Fields() {
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			return field.Interface().(error)
		}
	}
	return &remoteError{f.Text, sentinels[f.Kind], f.Errno}
}

// sent returns err with a text that net/rpc can carry and received reads.
func sent(err error) error {
	if err == nil {
		return nil
	}
	text, _ := json.Marshal(faultOf(err))
	return errors.New(string(text))
}

// received returns the error that sent was given, or text where net/rpc itself refuses a call.
func received(text rpc.ServerError) error {
	var f fault
	if json.Unmarshal([]byte(text), &f) != nil {
		return text
	}
	return f.err()
}

// remoteError keeps the companion's text and unwraps to its sentinel and to the kernel's error.
type remoteError struct {
	text  string
	is    error // nil: none
	errno syscall.Errno
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() (out []error) {
	if e.is != nil {
		out = append(out, e.is)
	}
	if e.errno != 0 {
		out = append(out, e.errno)
	}
	return out
}
