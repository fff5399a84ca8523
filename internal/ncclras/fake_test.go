package ncclras

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// service stands in for a RAS thread: it speaks as NCCL's src/ras/client_support.cc does.
type service struct {
	text, json string // answers to VERBOSE STATUS; without json: NCCL before 2.28.7

	mu       sync.Mutex
	commands []string
}

// listen serves until the test ends, and returns how to reach it.
func (s *service) listen(t testing.TB) func(context.Context) (net.Conn, error) {
	return listen(t, func(c net.Conn) { s.serve(c) })
}

func listen(t testing.TB, serve func(net.Conn)) func(context.Context) (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}
}

// serve answers the commands of one client, and closes after STATUS.
func (s *service) serve(c net.Conn) {
	asJSON := false
	in := bufio.NewScanner(c)
	for in.Scan() {
		cmd := strings.ToLower(in.Text())
		s.mu.Lock()
		s.commands = append(s.commands, cmd)
		s.mu.Unlock()
		switch {
		case strings.HasPrefix(cmd, "client protocol "):
			fmt.Fprint(c, "SERVER PROTOCOL 2\n")
		case strings.HasPrefix(cmd, "timeout "):
			fmt.Fprint(c, "OK\n")
		case cmd == "set format json" && s.json != "":
			asJSON = true
			fmt.Fprint(c, "OK\n")
		case cmd == "verbose status" && asJSON:
			fmt.Fprint(c, s.json)
			return
		case cmd == "verbose status":
			fmt.Fprint(c, s.text)
			return
		default:
			fmt.Fprintf(c, "ERROR: Unknown command %s\n", in.Text())
		}
	}
}

// head is what the text begins with.
const head = `NCCL version 2.27.7 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
`

// behind is a job whose rank 5 has launched fewer collectives.
const behind = head + `    0         1         2         4         8         8   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (00cf264af53edbe9) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 41
  Rank 5 has launched up to operation 40 -- GPU 1 managed by process 7005 on node 10.0.0.2

  Communicator ranks have different Broadcast operation counts
  6 ranks have launched up to operation 3
  2 ranks have not launched any operations
  Rank 5 -- GPU 1 managed by process 7005 on node 10.0.0.2
  Rank 6 -- [process information not found]

`

// gone is a job of which one process is dead and one does not answer.
const gone = head + `    0         1         2       2-4         8         6   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 7006 on node 10.0.0.2 managing GPU 2

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 7007 on node 10.0.0.2 managing GPU 3 (NVML 7)

#0-0 (cf264af53edbe9) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 6 -- GPU 2 managed by process 7006 on node 10.0.0.2
  Rank 7 -- GPU 3 (NVML 7) managed by process 7007 on node 10.0.0.2

#0-0 (cf264af53edbe9) ERROR
  Asynchronous error on 1 rank
  Rank 2 reported Remote process error -- GPU 2 managed by process 7002 on node 10.0.0.1

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

`

// first is the form of 2.24 and 2.25: one count of all collectives, and missing ranks by number.
const first = head + `    0         1         2         4         8         6   RUNNING  INCOMPLETE
    1         1         1         4         4         4      INIT  MISMATCH

Errors
======

#0-0 (cf264af53edbe9) INCOMPLETE
  Missing communicator data from 2 ranks
  The missing ranks: 6,7

Warnings
========

#0-0 (cf264af53edbe9) MISMATCH
  Communicator ranks have different collective operation counts
  5 ranks have launched up to operation 41
  Rank 2 has launched up to operation 40 -- GPU 2 managed by process 7002 on node 10.0.0.1

#1-0 (9e17) MISMATCH
  Communicator ranks have different status
  2 ranks have status INIT
  2 ranks have status UNKNOWN
  The unknown ranks: 1,3

`

// inJSON is the form of 2.28.7 and newer. The comma that these leave out before "status" is %s.
const inJSON = `{
  "nccl_version": "2.30.7",
  "cuda_runtime_version": 13020,
  "communicators_count": 2,
  "communicators": [
    {
      "hash": "0xcf264af53edbe9",
      "secondary_hash": "0x1:0x2",
      "size": 4,
      "ranks_count": 3,
      "missing_ranks_count": 1,
      "ranks": [
        {"rank": 0, "host": "10.0.0.1", "pid": 7000, "cuda_dev": 0, "nvml_dev": 0,
          "status": {"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false,
            "abort_flag": false},
          "collective_counts": {"AllReduce": 41, "Broadcast": 3}},
        {"rank": 1, "host": "10.0.0.1", "pid": 7001, "cuda_dev": 1, "nvml_dev": 1,
          "status": {"init_state": 0, "async_error": 6, "finalize_called": false, "destroy_flag": false,
            "abort_flag": false},
          "collective_counts": {"AllReduce": 41, "Broadcast": 3}},
        {"rank": 2, "host": "unknown", "pid": -1, "cuda_dev": 0, "nvml_dev": 0,
          "status": {"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false,
            "abort_flag": false},
          "collective_counts": {"AllReduce": 40, "Broadcast": 3}}
      ],
      "missing_ranks": [
        {
          "rank": 3,
          "host": "10.0.0.2",
          "pid": 7003,
          "cuda_dev": 1,
          "nvml_dev": 1%s
          "status": {
            "unresponsive": true,
            "considered_dead": true
          }
        }
      ]
    },
    {
      "hash": "0x9e17",
      "size": 2,
      "ranks": [
        {"rank": 0, "host": "10.0.0.1", "pid": 7000, "status": {"init_state": 7}, "collective_counts": {}}
      ],
      "missing_ranks": [
        {"rank": 1, "host": "10.0.0.1", "pid": 7001, "status": {"unresponsive": false, "considered_dead": false}}
      ]
    }
  ],
  "ras": {"collection_time_sec": 0.002, "timeouts_count": 0}
}
`
