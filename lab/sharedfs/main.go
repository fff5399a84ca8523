// Command sharedfs mirrors a folder as a network file system would show it: each request takes a round
// trip, and what was read stays in this mount's own cache. It ends when its standard input does.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// remote delays each request.
type remote struct {
	fuse.RawFileSystem
	trip time.Duration
}

func (r remote) Lookup(done <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	time.Sleep(r.trip)
	return r.RawFileSystem.Lookup(done, h, name, out)
}

func (r remote) GetAttr(done <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	time.Sleep(r.trip)
	return r.RawFileSystem.GetAttr(done, in, out)
}

func (r remote) StatFs(done <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	time.Sleep(r.trip)
	return r.RawFileSystem.StatFs(done, h, out)
}

func (r remote) Readlink(done <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	time.Sleep(r.trip)
	return r.RawFileSystem.Readlink(done, h)
}

// Open opens a file for the kernel's cache, and not past this process.
func (r remote) Open(done <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	time.Sleep(r.trip)
	status := r.RawFileSystem.Open(done, in, out)
	out.OpenFlags, out.BackingID = fuse.FOPEN_KEEP_CACHE, 0
	return status
}

func (r remote) Read(done <-chan struct{}, in *fuse.ReadIn, b []byte) (fuse.ReadResult, fuse.Status) {
	time.Sleep(r.trip)
	return r.RawFileSystem.Read(done, in, b)
}

func (r remote) ReadDir(done <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	time.Sleep(r.trip)
	return r.RawFileSystem.ReadDir(done, in, out)
}

func (r remote) ReadDirPlus(done <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	time.Sleep(r.trip)
	return r.RawFileSystem.ReadDirPlus(done, in, out)
}

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sharedfs:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: sharedfs FOLDER MOUNTPOINT ROUND_TRIP")
	}
	trip, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	root, err := fs.NewLoopbackRoot(args[0])
	if err != nil {
		return err
	}
	long := time.Hour
	raw := fs.NewNodeFS(root, &fs.Options{EntryTimeout: &long, AttrTimeout: &long, NegativeTimeout: &long})
	server, err := fuse.NewServer(remote{raw, trip}, args[1], &fuse.MountOptions{FsName: "sharedfs", AllowOther: true,
		DirectMountStrict: true, DisableXAttrs: true, MaxReadAhead: 128 << 10})
	if err != nil {
		return err
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		return err
	}
	fmt.Println("mounted")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return server.Unmount()
}
