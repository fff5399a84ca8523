package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"launch/cmd/internal/ui"
	"launch/diagnose"
	"launch/diagnose/bundle"
	"launch/diagnose/scene"
	"launch/fabric"
	"launch/fabric/machine"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/outfile"
)

// maxBundle is how many bytes of answers a bundle may hold, and factsLimit how long its facts about this node take.
const (
	maxBundle  = 256 << 20
	factsLimit = 15 * time.Second
)

// writeBundle writes the file of --bundle, and says what it holds.
func (a *app) writeBundle(d diagnosed) error {
	packed, holds, err := a.packed(d)
	if err != nil {
		return exit.Errorf(exit.Bug, "make the bundle: %v", err)
	}
	if err := outfile.WritePrivate(a.doc.bundle, packed); err != nil {
		return exit.CannotWrite(a.Opt.From("bundle"), a.doc.bundle, err)
	}
	a.noteBundle(a.doc.bundle, packed, holds)
	return nil
}

// noteBundle says what a bundle holds.
func (a *app) noteBundle(file string, packed []byte, holds []string) {
	a.UI.Note("%s (%s, readable by you alone) holds:", file, finding.Size(uint64(len(packed))))
	for _, h := range holds {
		a.UI.Note("%s", h)
	}
}

// hangBundle writes what all nodes have seen of a job that hangs: into the file of --bundle, the current folder or
// that for temporary files, whichever is the first that can be written.
func (a *app) hangBundle(scenes []scene.Scene) (string, error) {
	packed, holds, err := a.packed(diagnosed{Answers: diagnose.Judge(scenes), Scenes: scenes})
	if err != nil {
		return "", fmt.Errorf("make the bundle: %w", err)
	}
	name := fmt.Sprintf("launch-hang-%s-%s.tar.gz", strings.ReplaceAll(a.Job.ID.V, "/", "-"),
		time.Now().Format("20060102-150405"))
	files := []string{name, filepath.Join(os.TempDir(), name)}
	if a.doc.bundle != "" {
		files = append([]string{a.doc.bundle}, files...)
	}
	var failed []error
	for _, file := range files {
		if err = outfile.WritePrivate(file, packed); err == nil {
			for _, err := range failed {
				a.UI.Note("%v", err)
			}
			a.noteBundle(file, packed, holds)
			return file, nil
		}
		failed = append(failed, err)
	}
	return "", errors.Join(failed...)
}

// packed returns a bundle, and lines about what it holds.
func (a *app) packed(d diagnosed) (packed []byte, holds []string, err error) {
	m := bundle.NewMasker(d.Scenes, usersOf(d.Scenes)...)
	files, err := a.bundled(m, d)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		holds = append(holds, fmt.Sprintf("  %s, %s: %s", f.Name, finding.Size(uint64(len(f.Text))), f.Holds))
	}
	holds = append(holds, fmt.Sprintf("replaced alike: %s; lines that the job has printed, its paths below the home and "+
		"its options remain: read them before you send it", m.Changed()))
	packed, err = bundle.Pack(files)
	return packed, holds, err
}

// bundled returns the files of a bundle.
func (a *app) bundled(m *bundle.Masker, d diagnosed) ([]bundle.File, error) {
	scenes, err := m.Scenes(d.Scenes)
	if err != nil {
		return nil, err
	}
	masked := diagnosed{Answers: diagnose.Judge(scenes), Scenes: scenes}
	if d.news { // what launch has said of its wait is in no scene
		why := &masked.Answers[0].Why[0]
		first := d.Answers[0].Why[0]
		why.Cause, why.Nodes, why.Says, why.Do = first.Cause, nil, m.Text(first.Says), m.Text(first.Do)
		for _, n := range first.Nodes {
			why.Nodes = append(why.Nodes, m.Text(n))
		}
	}
	var text, said bytes.Buffer
	u := ui.New(&text, &text, ui.Options{JSON: true, Env: func(string) string { return "" }})
	u.Emit(true, "doctor", masked)
	plain := ui.New(&said, &said, ui.Options{Env: func(string) string { return "" }})
	for _, one := range masked.Answers {
		plain.Diagnosis(one)
	}
	if text.Len() > maxBundle {
		return nil, fmt.Errorf("what the nodes saw is longer than %d MiB", maxBundle>>20)
	}
	build, err := json.MarshalIndent(built(), "", " ")
	if err != nil {
		return nil, err
	}
	files := []bundle.File{
		{Name: bundle.Answers, Holds: fmt.Sprintf("the answers and what %s saw; launch doctor --merge BUNDLE judges it again",
			finding.Count(len(scenes), "node")), Text: text.Bytes()},
		{Name: "answer.txt", Holds: "the answers as text", Text: said.Bytes()},
		{Name: "version.json", Holds: "launch version", Text: append(build, '\n')},
	}
	if a.doc.merge {
		return files, nil // the files may be of other nodes
	}
	if facts, err := a.facts(); err == nil {
		files = append(files, bundle.File{Name: "machine.json", Text: facts,
			Holds: "this node as launch fabric --record writes it, for --from; its addresses are replaced in a way of its own"})
	} else {
		a.UI.Note("the bundle has no facts about this node: %v", err)
	}
	return files, nil
}

// facts returns a recording of this node.
func (a *app) facts() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), factsLimit)
	defer cancel()
	type recorded struct {
		text []byte
		err  error
	}
	done := make(chan recorded, 1)
	go func() { // a file system may not answer
		rec := machine.NewRecorder(fabric.Live())
		text, err := rec.File(a.DetectLive(ctx, rec.Roots()))
		done <- recorded{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("not read within %v", factsLimit)
	}
}

// firstUser is the first user id that a person has; daemon is no name to hide.
const firstUser = 100

// usersOf returns the names that the users of a job's processes have on this node.
func usersOf(scenes []scene.Scene) (out []string) {
	ids := map[int]bool{}
	for _, s := range scenes {
		ids[s.User] = true
		for _, p := range s.Procs {
			ids[p.User] = true
		}
	}
	for id := range ids {
		if u, err := user.LookupId(strconv.Itoa(id)); err == nil && id >= firstUser &&
			!strings.ContainsAny(u.Username, " /") {
			out = append(out, u.Username)
		}
	}
	return out
}
