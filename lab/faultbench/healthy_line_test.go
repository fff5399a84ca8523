package faultbench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// ranked is a program that prints what a rank of the stand-in for torchrun prints.
const ranked = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"

// lineOddities returns oddities in the command line.
func lineOddities() []oddity {
	return []oddity{
		{name: "one process on each node", takes: "line", make: func(s *healthy) {
			s.each(func(h *host) { h.line[slices.Index(h.line, "--nproc-per-node")+1] = "1" })
		}},
		{name: "a plain program", takes: "line", make: func(s *healthy) {
			s.each(func(h *host) {
				h.flags = append(h.flags, "--nnodes", strconv.Itoa(len(s.hosts)))
				h.line = []string{"sh", "-c", `echo "rank $RANK of $WORLD_SIZE"`}
			})
		}},
		{name: "a plain program, and ranks of a single process", takes: "line", make: func(s *healthy) {
			s.each(func(h *host) {
				h.env = append(h.env, "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0")
				h.flags = append(h.flags, "--nnodes", strconv.Itoa(len(s.hosts)))
				h.line = []string{"sh", "-c", `echo "rank $RANK of $WORLD_SIZE"`}
			})
		}},
		{name: "a copy of the script in a folder of each host", takes: "line user", make: func(s *healthy) {
			s.each(func(h *host) {
				h.write(s.trial, "job/train.py", ranked)
				h.flags = append(h.flags, "--nnodes", strconv.Itoa(len(s.hosts)))
				h.line = []string{"python3", h.file("job/train.py")}
			})
		}},
		{name: "a folder with __main__.py", takes: "line user", make: func(s *healthy) {
			s.hosts[0].write(s.trial, "job/__main__.py", ranked)
			s.each(func(h *host) {
				h.flags = append(h.flags, "--nnodes", strconv.Itoa(len(s.hosts)))
				h.line = []string{"python3", s.hosts[0].file("job")}
			})
		}},
		{name: "a command after env", takes: "line", make: func(s *healthy) {
			s.each(func(h *host) { h.line = append([]string{"env", "A=B"}, h.line...) })
		}},
		{name: "a command after nice", takes: "line", make: func(s *healthy) {
			s.each(func(h *host) { h.line = append([]string{"nice", "-n", "3"}, h.line...) })
		}},
		{name: "the line of torch's manual", takes: "line", make: func(s *healthy) {
			end := s.addr(s.hosts[0]) + ":29400"
			if s.six {
				end = "[" + s.addr(s.hosts[0]) + "]:29400"
			}
			s.each(func(h *host) {
				more := []string{"--rdzv-id", "100", "--rdzv-backend", "c10d", "--rdzv-endpoint", end, "--max-restarts", "3"}
				h.line = slices.Insert(h.line, len(h.line)-1, more...)
			})
		}},
		{name: "a script in a folder with blanks", takes: "line", make: func(s *healthy) {
			file := filepath.Join(s.t.TempDir(), "My Jobs", "größe 模型", "train me (2).py")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				s.t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("print()\n"), 0o644); err != nil {
				s.t.Fatal(err)
			}
			for dir := filepath.Dir(file); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
				_ = os.Chmod(dir, 0o755)
			}
			s.each(func(h *host) { h.line[len(h.line)-1] = file })
		}},
		{name: "a script by a relative path", takes: "line cwd", make: func(s *healthy) {
			s.each(func(h *host) {
				h.Prepare = append(h.Prepare, "cd "+filepath.Dir(tools.script))
				h.line[len(h.line)-1] = filepath.Base(tools.script)
			})
		}},
		{name: "each its own log folder", make: func(s *healthy) {
			s.each(func(h *host) {
				if i := slices.Index(h.line, "--nproc-per-node"); i > 0 {
					h.line = slices.Insert(h.line, i, "--log-dir", "/tmp/logs-of-"+h.Name)
				}
			})
		}},
		{name: "ranks are typed", takes: "rank", make: func(s *healthy) {
			for i, h := range s.hosts {
				h.flags = append(h.flags, "--node-rank", strconv.Itoa(i))
			}
		}},
		{name: "ranks are typed, and the store is not on rank 0", takes: "rank", make: func(s *healthy) {
			for i, h := range s.hosts {
				h.env = append(h.env, fmt.Sprintf("LAUNCH_NODE_RANK=%d", len(s.hosts)-1-i))
			}
		}},
		{name: "ranks in NODE_RANK", takes: "rank", make: func(s *healthy) {
			for i, h := range s.hosts {
				h.env = append(h.env, fmt.Sprintf("NODE_RANK=%d", i))
			}
		}},
		{name: "a Slurm step with a task on each node", takes: "rank", make: func(s *healthy) {
			for i, h := range s.hosts {
				h.env = append(h.env, stepOf(s.trial, i)...)
			}
		}},
		{name: "a token on all", takes: "token", make: func(s *healthy) {
			s.each(func(h *host) { h.env = append(h.env, "LAUNCH_TOKEN=0123456789abcdef0123") })
		}},
		{name: "the job has a name", make: func(s *healthy) {
			s.each(func(h *host) { h.flags = append(h.flags, "--job", "llama-7b/run 3") })
		}},
	}
}
