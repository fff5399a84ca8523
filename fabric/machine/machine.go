// Package machine holds recorded machines: the files that fabric.Detect reads, and the answers of the
// kernel, NVML and libibverbs. Users send recordings with problem reports, and tests run on them.
package machine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/software"
	"launch/fabric/verbs"
)

// Machine is a recorded machine.
type Machine struct {
	files   *tree
	answers answers
}

// answers is what a machine reported other than by files. A nil answer was not recorded.
type answers struct {
	Links       []fabric.Interface `json:"links,omitempty"` // rtnetlink, with addresses
	Route       *fabric.Route      `json:"route,omitempty"` // the default route
	Shm         *[2]int64          `json:"shm,omitempty"`   // /dev/shm: bytes free and size
	System      *fabric.System     `json:"system,omitempty"`
	RDMA        string             `json:"rdma,omitempty"` // the RDMA subsystem's namespaces, by netlink
	Nofile      *uint64            `json:"nofile,omitempty"`
	HostAddrs   []string           `json:"host_addrs,omitempty"`
	HostErr     string             `json:"host_err,omitempty"`
	Environment map[string]string  `json:"environment,omitempty"`
	NVML        *gpu.Facts         `json:"nvml,omitempty"`
	Verbs       *verbs.Facts       `json:"verbs,omitempty"`
	Software    *software.Facts    `json:"software,omitempty"`
}

// Read reads a recording (Recorder), a sysfs-manifest/1, or a description (machine/1).
func Read(data []byte) (*Machine, error) {
	if len(data) > 2*maxBytes {
		return nil, fmt.Errorf("read recorded machine: more than %d MiB", 2*maxBytes>>20)
	}
	m := &Machine{files: newTree()}
	var err error
	switch trimmed := bytes.TrimSpace(data); {
	case bytes.HasPrefix(trimmed, []byte("{")):
		err = m.manifest(trimmed)
	case bytes.HasPrefix(data, []byte(textFormat)):
		err = m.describe(string(data))
	default:
		err = errors.New("it is neither JSON nor begins with " + textFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("read recorded machine: %w", err)
	}
	return m, nil
}

// The formats in JSON. The first is a subset of the second.
const (
	manifestFormat  = "sysfs-manifest/1"
	recordingFormat = "launch-recording/1"
)

// recording is a file of either format. Paths are relative to /.
type recording struct {
	Format  string            `json:"format"`
	Answers answers           `json:"answers,omitzero"`
	Dirs    []string          `json:"dirs"`
	Links   map[string]string `json:"symlinks"`
	Files   map[string]string `json:"files"`
	Errors  map[string]string `json:"errors,omitempty"` // files with an error, by its name, "EINVAL"
	ACS     map[string]string `json:"acs,omitempty"`    // config files of bridges: whether they redirect, "on" or "off"
}

func (m *Machine) manifest(data []byte) error {
	var r recording
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if r.Format != manifestFormat && r.Format != recordingFormat {
		return fmt.Errorf("its format is %q, not %s or %s", r.Format, recordingFormat, manifestFormat)
	}
	m.answers = r.Answers
	var errs []error
	for _, name := range r.Dirs {
		errs = append(errs, m.files.dir(name))
	}
	for name, text := range r.Files {
		errs = append(errs, m.files.file(name, text))
	}
	for name, state := range r.ACS {
		errs = append(errs, m.files.file(name, acsConfig(state)))
	}
	for name, target := range r.Links {
		errs = append(errs, m.files.link(name, target))
	}
	for name, why := range r.Errors {
		errno, err := errnoOf(why)
		if err != nil {
			err = fmt.Errorf("file %q: %w", name, err)
		}
		errs = append(errs, err, m.files.fail(name, errno))
	}
	return cmp.Or(errs...) // the first
}

// Roots returns the machine as the input of fabric.Detect.
func (m *Machine) Roots() fabric.Roots {
	r := fabric.Roots{Sys: m.files.at("sys"), Proc: m.files.at("proc"), Etc: m.files.at("etc"), Dev: m.files.at("dev"),
		Root: m.files}
	if m.answers.Links != nil {
		r.Links = func() ([]fabric.Interface, error) { return copyLinks(m.answers.Links), nil }
	}
	r.Env = func(name string) string { return m.answers.Environment[name] }
	if route := m.answers.Route; route != nil {
		r.Route = func() (fabric.Route, error) { return *route, nil }
	}
	if mode := m.answers.RDMA; mode != "" {
		r.RDMA = func() (string, error) { return mode, nil }
	}
	if s := m.answers.System; s != nil {
		r.System = func([]string) fabric.System { return *s }
	}
	if s := m.answers.Shm; s != nil {
		r.Shm = func() (int64, int64) { return s[0], s[1] }
	}
	return r
}

// copyLinks returns a copy that Detect may complete.
func copyLinks(links []fabric.Interface) []fabric.Interface {
	out := slices.Clone(links)
	for i := range out {
		out[i].Addrs = slices.Clone(out[i].Addrs)
	}
	return out
}

// Detect returns the node that this machine was, and nothing of the machine that replays it.
func (m *Machine) Detect(ctx context.Context) fabric.Node {
	a := m.answers
	var opt fabric.Options
	if a.Nofile != nil {
		opt.Nofile, opt.NofileKnown = *a.Nofile, true
	}
	if a.NVML != nil {
		opt.GPU = func(context.Context) gpu.Facts { return *a.NVML }
	}
	if a.Verbs != nil {
		opt.Verbs = func(context.Context) verbs.Facts { return *a.Verbs }
	}
	if a.Software != nil {
		opt.Software = func(context.Context) software.Facts { return *a.Software }
	}
	n := fabric.Detect(ctx, m.Roots(), opt)
	n.HostAddrs, n.HostErr = a.HostAddrs, a.HostErr
	return n
}

// acsConfig returns the registers of a bridge that redirects ("on") or does not, with one extended
// capability (fabric.ReadACS). "" gives the 64 bytes that an unprivileged user can read.
func acsConfig(state string) string {
	if state == "" {
		return string(make([]byte, 64))
	}
	b := make([]byte, 0x108)
	binary.LittleEndian.PutUint32(b[0x100:], 0x0001000d)
	if state == "on" {
		binary.LittleEndian.PutUint16(b[0x106:], 0x0c)
	}
	return string(b)
}
