package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/ui"
	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/rail"
	"launch/fabric/verbs"
	"launch/internal/child"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/outfile"
)

// fabric prints the rails, GPUs and interfaces of this node.
func (a *app) fabric(c *cli.Context) error {
	a.Job.Nodes.V = 2 // as for a job of several nodes, whose host names matter
	n, err := a.Recorded(c.Context)
	if err != nil {
		return err
	}
	f := rail.Of(n, n.Route.Src)
	if a.svg != "" {
		if err := outfile.Write(a.svg, ui.FabricSVG(n, f)); err != nil {
			return exit.CannotWrite(a.Opt.From("svg"), a.svg, err)
		}
	}
	a.UI.Fabric(n, f)
	return nil
}

// metricsChild reads the devices in another process, which is abandoned if it hangs in a driver.
const metricsChild = "metrics"

// metricsLimit bounds a reading. NVML alone takes 3 s for each GPU that sleeps.
const metricsLimit = 40 * time.Second

// reading is the answer of metricsChild.
type reading struct {
	Node     fabric.Node           `json:"node"`
	Counters []fabric.PortCounters `json:"counters"`
}

// readMetrics is metricsChild: it writes a reading to out.
func readMetrics(ctx context.Context, _ io.Reader, out io.Writer) error {
	roots := fabric.Live()
	n := fabric.Detect(ctx, roots, fabric.Options{
		GPU:   func(ctx context.Context) gpu.Facts { return fabric.AskGPU(ctx, roots, gpu.Question{Load: true}) },
		Verbs: func(ctx context.Context) verbs.Facts { return fabric.AskVerbs(ctx, roots) },
	})
	return json.NewEncoder(out).Encode(reading{n, fabric.ReadPortCounters(roots.Sys, n.HCAs)})
}

// metrics writes the state of this node's devices, once or at intervals.
func (a *app) metrics(c *cli.Context) error {
	if err := a.metricsUsage(); err != nil {
		return err
	}
	if err := a.TryOutputs(); err != nil {
		return err
	}
	ctx, stop, caught := handoff.NotifyContext(c.Context)
	defer stop()
	if a.listen != "" {
		return a.serveMetrics(ctx)
	}
	round := func() error {
		m, err := a.measured(ctx)
		switch {
		case err != nil:
			return err
		case a.Opt.Textfile == "":
			return a.UI.PrintMetrics(m)
		}
		if err := ui.WriteMetrics(a.Opt.Textfile, m); err != nil {
			return exit.CannotWrite(a.Opt.From("textfile"), a.Opt.Textfile, err)
		}
		return nil
	}
	every := a.interval
	if every == 0 {
		err := round()
		if ctx.Err() != nil {
			return end(a.Fail(context.Cause(ctx), caught()))
		}
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := ""; ; {
		err := round()
		if ctx.Err() != nil { // a signal ends it
			return nil
		}
		now := fmt.Sprint(err)
		if err != nil && now != last {
			a.UI.Note("%s; the file is unchanged; retrying in %v", now, every)
		}
		last = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// metricsUsage refuses flags of launch metrics that do not go together.
func (a *app) metricsUsage() error {
	every := a.interval
	if every != 0 && every < time.Second {
		return exit.Errorf(exit.Usage, "--interval %v is too short: each round reads every device", every).
			Do("launch metrics --textfile FILE --interval 15s")
	}
	if every != 0 && a.Opt.Textfile == "" {
		return exit.Errorf(exit.Usage, "--interval needs a file to write to").
			Do("launch metrics --textfile FILE --interval %s", every.String())
	}
	if a.listen != "" && a.Opt.Textfile != "" {
		return exit.Errorf(exit.Usage, "--listen and --textfile exclude each other").
			Do("launch metrics --listen %s   # Prometheus asks this node itself", a.listen)
	}
	return nil
}

// serveMetrics answers Prometheus until a signal. Each question reads the devices.
func (a *app) serveMetrics(ctx context.Context) error {
	l, err := net.Listen("tcp", a.listen)
	if err != nil {
		return exit.Errorf(exit.Usage, "%s %q: %v", a.Opt.From("listen"), a.listen, err).
			Do("launch metrics --listen 127.0.0.1:9421   # an address of this node, and a free port")
	}
	a.UI.Note("serving http://%s/metrics, without a password; Ctrl-C ends it", l.Addr())
	return ui.ServeMetrics(ctx, l, func(ctx context.Context) (ui.Metrics, error) { return a.measured(ctx) })
}

// measured returns the metrics of one round.
func (a *app) measured(ctx context.Context) (ui.NodeMetrics, error) {
	began := time.Now()
	var r reading
	if from := a.Machine; from != nil {
		r.Node = from.Detect(ctx)
		r.Counters = fabric.ReadPortCounters(from.Roots().Sys, r.Node.HCAs)
	} else if err := child.Ask(ctx, metricsChild, nil, &r, metricsLimit); err != nil {
		return ui.NodeMetrics{}, fmt.Errorf("read this node's devices: %w", err)
	}
	return ui.NodeMetrics{Node: r.Node, Roles: rail.Of(r.Node, r.Node.Route.Src).NICs, Counters: r.Counters,
		At: time.Now(), Took: time.Since(began)}, nil
}
