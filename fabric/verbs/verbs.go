// Package verbs asks libibverbs, opened at run time, which RDMA devices this
// process may use. Most facts about them are in sysfs without a library; what
// only the library can tell is whether a device opens. A driver can wedge in
// that, so it belongs in a child process (see internal/child).
package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
)

// The ways of having no answer. Devices wraps them.
var (
	ErrNoLibrary = errors.New("libibverbs.so.1 is not installed")
	ErrNoStack   = errors.New("the kernel has no RDMA stack (ib_uverbs is not loaded)")
	ErrNoCgo     = errors.New("this build of launch has no verbs (built without cgo)")
)

// Device is one RDMA device, as libibverbs lists it: those that it has a
// userspace driver for.
type Device struct {
	Name  string `json:"name"`
	Opens bool   `json:"opens"`         // ibv_open_device succeeded
	Err   string `json:"err,omitempty"` // why it did not
}

// Facts is what libibverbs, or its absence, tells. Exactly one of Present,
// Absent and Err holds; none of them where nobody asked.
type Facts struct {
	Present bool     `json:"present"`          // libibverbs answered
	Absent  string   `json:"absent,omitempty"` // nothing to ask, and how that was seen
	Err     string   `json:"err,omitempty"`    // there is, but it could not be asked
	Devices []Device `json:"devices,omitempty"`
}

// Child is the question as a child process answers it: nothing is read, the
// Facts are written as JSON.
func Child(_ context.Context, _ io.Reader, out io.Writer) error {
	devices, err := Devices()
	f := Facts{Present: err == nil, Devices: devices}
	if err != nil {
		f.Err = err.Error()
	}
	return json.NewEncoder(out).Encode(f)
}
