package main

import (
	"context"
	"net/netip"
	"os"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/peers"
)

// software asks what the job's command would load; nil where nobody compares
// it: a lone program starts at once, and mpirun starts its processes elsewhere.
func (a *app) software(j job.Job) func(context.Context) software.Facts {
	if !j.Several() && !a.o.dryRun || j.Line.Kind == launcher.Mpirun {
		return nil
	}
	return func(ctx context.Context) software.Facts {
		return software.Detect(ctx, fabric.Bounded(os.DirFS("/")), loaded(j))
	}
}

// loaded is the job's command as software.Detect takes it. Without a command it
// is the torchrun that a start would find.
func loaded(j job.Job) software.Command {
	l := j.Line
	cmd := software.Command{Program: string(launcher.Torchrun), Env: settled(j), Home: homeDir()}
	cmd.Dir, _ = os.Getwd()
	if l.Program < len(l.Argv) && !l.Inside { // a script that calls torchrun inside finds it in PATH
		cmd.Before, cmd.Program = l.Argv[:l.Program], l.Argv[l.Program]
	}
	if n := len(cmd.Before); n > 0 && (cmd.Before[n-1] == "-m" || cmd.Before[n-1] == "--module") { // uv's: what follows is a module
		cmd.Program = "python"
	}
	return cmd
}

// settled is the environment of the command behind its env(1) prefixes, with
// what NCCL reads from its own files: NCCL_NET_PLUGIN may stand in these.
func settled(j job.Job) []string {
	env := j.Line.Environ(handoff.Environ())
	var files []string
	for _, d := range j.Decided {
		if d.From != "environment" {
			files = append(files, d.Name+"="+d.Value)
		}
	}
	return append(files, env...) // the last of a name counts
}

// loads is what this node tells the others of what it would load.
func loads(n fabric.Node) peers.Loads {
	_, err := os.Stat("/dev/kfd") // AMD's driver, which NVML does not know
	amd := n.Software.HIP != "" && err == nil
	return peers.Loads{
		Facts: n.Software, Driver: n.GPUs.Driver,
		GPU:  amd || len(n.GPUs.Devices) > 0 || n.GPUs.Err != "", // a driver that could not be asked is there
		RDMA: len(n.HCAs) > 0,
	}
}

// traits is what this node tells the others of what it is made of.
func traits(j job.Job, n fabric.Node, addr netip.Addr, chosen map[string][]string) peers.Traits {
	return peers.TraitsOf(preflight.Input{Job: j, Node: n, Addr: addr, Selected: chosen, Env: os.LookupEnv}, rail.Of(n, addr))
}
