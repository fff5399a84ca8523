package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/record"
	"launch/envgen"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/preflight"
)

// goRound is the round that decides whether all start, checkRound that of a
// check, after which none does.
const goRound, checkRound = "go", "check"

// decide posts what this node has to say and returns the one decision. The
// plan is made before it, so that a line that cannot be run ends nobody else.
func (a *app) decide(ctx context.Context, s *record.Start, comp *companion.Client, deadline time.Time) (preflight.Decision, error) {
	w := s.World
	if err := a.plan(s, a.world(s), w.Self.Addr); err != nil {
		return preflight.Decision{}, err
	}
	post := preflight.Post{Rank: w.Rank, Name: w.Self.Name(), ID: w.Self.ID, NProc: s.Job.NProc.V, Version: versionText(), Command: commandOf(s.Job.Line), Script: scriptOf(s.Job.Line), Listens: a.listens(s), Restarts: strconv.Itoa(a.o.restarts),
		Loads: loads(s.Node), Traits: traits(s.Job, s.Node, w.Self.Addr, envgen.Selected(s.Input)), Constants: envgen.Constants(s.Plan, s.Job.Decided), Nameless: s.Job.ID.From.Name == job.StoreAddress,
		Skip: preflight.Options{Skip: a.o.skip, Only: a.o.only}.NotJudged()}
	round, checking := goRound, a.word == "check"
	if post.Local = preflight.Brief(s.Local); checking { // in a start each node tells its own findings in full itself
		round, post.Local, post.Outcomes = checkRound, preflight.Telling(s.Local), preflight.Outcomes(s.Local)
	}
	var err error
	if post.Calls, post.Names, err = a.calls(ctx, s, comp); err != nil {
		return preflight.Decision{}, err
	}
	mine, err := json.Marshal(post)
	if err != nil {
		return preflight.Decision{}, err
	}
	out, err := comp.Round(ctx, round, mine, time.Until(deadline), func(raw [][]byte) ([]byte, bool) {
		posts := make([]preflight.Post, len(raw))
		for i, b := range raw {
			if err := json.Unmarshal(b, &posts[i]); err != nil {
				posts[i] = preflight.Post{Rank: i, Name: fmt.Sprintf("rank %d", i), Version: "unreadable"}
			}
		}
		d := preflight.Decide(posts, a.o.thresholds)
		if a.o.warnOnly {
			d = d.Waive()
		}
		if checking {
			survey := preflight.Compare(posts, d)
			d.Survey = &survey
		} else { // for the one log that people look at: the others do not read it
			a.ui.Findings(preflight.Elsewhere(posts, w.Rank), false)
			d.Nodes = nil
		}
		b, _ := json.Marshal(d)
		return b, d.Go && !checking
	})
	var d preflight.Decision
	if err == nil {
		err = json.Unmarshal(out, &d)
	}
	return d, err
}

// world is what the wrapped command needs of the agreed one.
func (a *app) world(s *record.Start) launcher.World {
	w, m := s.World, s.World.Master
	return launcher.World{
		Job: w.Job, RunID: w.RunID, Nodes: launcher.Known(w.Size), NodeRank: launcher.Known(w.Rank),
		MasterAddr: m.Addr.String(), MasterPort: launcher.Known(m.Port), Addr: w.Self.Addr.String(), KeepRdzv: a.o.KeepRdzv,
		Task: launcherTask(s.Job.Tasks),
	}
}

// single is the world of one node, which is computed.
func single(j job.Job) launcher.World {
	return launcher.World{
		Job: j.ID.V, RunID: j.ID.V, Nodes: launcher.Known(1), NodeRank: launcher.Known(0),
		MasterAddr: "127.0.0.1", MasterPort: launcher.Known(wanted(j)), Addr: "127.0.0.1",
		Single: j.Single, Task: launcherTask(j.Tasks),
	}
}

// plan computes the variables and the command of this node.
func (a *app) plan(s *record.Start, w launcher.World, addr netip.Addr) (err error) {
	in := s.Input
	if in.Mpirun { // rank 0 runs on the first host of its list
		if len(in.World.Peers) > 0 {
			w.MasterAddr = in.World.Peers[0].String()
		}
	} else {
		in.World.Nodes, in.World.Rank, in.World.Addr = w.Nodes.V, w.NodeRank.V, addr
		if master, err := netip.ParseAddr(w.MasterAddr); err == nil {
			in.World.Master = netip.AddrPortFrom(master, uint16(w.MasterPort.V))
		}
	}
	s.Plan, a.crew.world = envgen.Make(in), w
	s.Command, err = s.Job.Line.Command(w, s.Plan, handoff.Environ())
	return err
}

// listens is where NCCL and Gloo will wait here beside this node's address.
func (a *app) listens(s *record.Start) []preflight.Listen {
	in := s.Input
	in.World.Nodes, in.World.Addr = s.World.Size, s.World.Self.Addr
	var out []preflight.Listen
	for _, l := range envgen.Listens(in, s.Plan) {
		out = append(out, preflight.Listen(l))
	}
	return out
}

// commandOf is the part of the line that should be alike on all nodes: the
// script and its arguments, with the program by its last name.
func commandOf(l launcher.Line) string {
	rest := l.Argv[l.Rest:]
	if len(rest) == 0 {
		return string(l.Kind)
	}
	text := strings.Join(append([]string{filepath.Base(rest[0])}, rest[1:]...), " ")
	if len(text) > 120 { // enough to see, and a sum to compare
		text = fmt.Sprintf("%s… (%x)", text[:100], sha256.Sum256([]byte(text)))[:130]
	}
	return text
}
