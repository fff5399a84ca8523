package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// Server is an embedded store: an etcd of one member that lives as long as the job
// needs it, and deletes its data at the end.
type Server struct {
	etcd   *embed.Etcd
	kv     pb.KVServer // etcd's own services
	leases pb.LeaseServer
	up     chan struct{} // closed when these are set, and the store signed
	dir    string
	lock   *os.File
	once   sync.Once

	failed chan error
}

// ErrPortTaken reports that another process listens at the address of the store.
var ErrPortTaken = errors.New("port is taken")

// ErrNoRoom reports that no folder has room for the store.
var ErrNoRoom = errors.New("no folder has room for the store")

// storeRoom is the largest size of the store's files: two WAL segments, one that is
// being made, and the database, twice.
const storeRoom = 12 << 20

// walSegment replaces etcd's 64 MB preallocated segments: an idle store then
// has 8 MiB on disk instead of 123 MB.
const walSegment = 4 << 20

// hostOnce sets what etcd and gRPC read from package variables.
var hostOnce = sync.OnceFunc(func() {
	wal.SegmentSizeBytes = walSegment
	silenceGRPC()
})

// garbage is how much garbage, in percent of the live memory, starts a collection. With
// Go's 100 a store for 1,000 nodes spends a sixth of its processor time on collections.
// This value saves most of that for a quarter more memory.
const garbage = 400

// Serve starts an embedded store for job on the given addresses, with mutual
// TLS where keys is not nil; this process exists for it. The error
// wraps ErrPortTaken where another process listens there.
func Serve(ctx context.Context, job string, listen []netip.AddrPort, keys *TLS) (*Server, error) {
	hostOnce()
	debug.SetGCPercent(garbage)
	dir, lock, err := storeDir()
	if err != nil {
		return nil, fmt.Errorf("make a folder for the store: %w", err)
	}
	s := &Server{dir: dir, lock: lock, failed: make(chan error, 1), up: make(chan struct{})}
	cfg, err := s.config(listen, keys)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("write the store's keys: %w", err)
	}
	wd, _ := os.Getwd()
	defer func() { _ = os.Chdir(wd) }()
	if err := os.Chdir(dir); err != nil { // etcd makes its sockets in the working directory
		s.Close()
		return nil, err
	}
	s.etcd, err = embed.StartEtcd(cfg)
	if err != nil {
		s.Close()
		if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use") {
			return nil, fmt.Errorf("serve the store on %v: %w", listen, ErrPortTaken)
		}
		return nil, fmt.Errorf("serve the store on %v: %w", listen, err)
	}
	s.kv, s.leases = v3rpc.NewQuotaKVServer(s.etcd.Server), v3rpc.NewQuotaLeaseServer(s.etcd.Server)
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		s.Close()
		return nil, fmt.Errorf("serve the store on %v: %w", listen, err)
	case <-ctx.Done():
		s.Close()
		return nil, ctx.Err()
	}
	if err := s.sign(ctx, job); err != nil {
		s.Close()
		return nil, fmt.Errorf("sign the store: %w", err)
	}
	close(s.up)
	return s, nil
}

// config returns the settings of etcd for this store.
func (s *Server) config(listen []netip.AddrPort, keys *TLS) (cfg *embed.Config, err error) {
	cfg = embed.NewConfig()
	cfg.Name, cfg.Dir = "launch", filepath.Join(s.dir, "d")
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{
		grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		grpc.StaticConnWindowSize(window), grpc.StaticStreamWindowSize(window),
	}
	cfg.ServiceRegister = func(g *grpc.Server) { g.RegisterService(s.service(), s) }
	cfg.EnableGRPCGateway = false // no client uses etcd's JSON
	scheme := "http"
	if keys != nil {
		scheme = "https"
		if cfg.ClientTLSInfo, err = keys.files(s.dir); err != nil {
			return nil, err
		}
	}
	cfg.ListenClientUrls = nil
	for _, a := range listen {
		cfg.ListenClientUrls = append(cfg.ListenClientUrls, url.URL{Scheme: scheme, Host: a.String()})
	}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	// HTTP has a socket of its own, which has no user: else etcd would detect the
	// protocol of each connection, and serve gRPC over TLS by net/http.
	cfg.ListenClientHttpUrls = []url.URL{socket("http")}
	cfg.ListenPeerUrls = []url.URL{socket("peer")}
	cfg.AdvertisePeerUrls = cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// One member elects itself: short timing makes it ready in about 0.1 s.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.UnsafeNoFsync = true // the data ends with the process: no need to survive a power cut
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(zapcore.NewNopCore(),
		zap.WithFatalHook(failure{s.dir, s.failed})))
	return cfg, nil
}

// socket returns the address of a Unix socket in the working directory of the start.
func socket(name string) url.URL { return url.URL{Scheme: "unix", Host: name + newID()[:6] + ":0"} }

// files writes the keys as files for etcd, in a folder that only this user can enter
// and that is deleted with the store.
func (k *TLS) files(dir string) (transport.TLSInfo, error) {
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	err := errors.Join(os.WriteFile(cert, k.CertPEM, 0o600), os.WriteFile(key, k.KeyPEM, 0o600))
	// The certificate names no address: the key alone identifies a node of the job.
	return transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: cert, ClientCertAuth: true,
		SkipClientSANVerify: true, Logger: zap.NewNop()}, err
}

// Endpoints returns the addresses (host:port) of the store.
func (s *Server) Endpoints() []string {
	var out []string
	for _, l := range s.etcd.Clients {
		if l.Addr().Network() == "tcp" {
			out = append(out, l.Addr().String())
		}
	}
	return out
}

// sign writes the job of this store.
func (s *Server) sign(ctx context.Context, job string) error {
	host, _ := os.Hostname()
	v, err := json.Marshal(identity{Job: job, Host: host, PID: os.Getpid()})
	if err != nil {
		return err
	}
	c := v3client.New(s.etcd.Server)
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	_, err = c.Put(ctx, storeKey, string(v))
	return err
}

// Drop removes the store's data, just before the process and the store end. (Close
// waits up to 7 s for the watches of the other nodes to end.)
func (s *Server) Drop() { _ = os.RemoveAll(s.dir) }

// Close stops the store and removes its data.
func (s *Server) Close() {
	s.once.Do(func() {
		if s.etcd != nil {
			s.etcd.Close()
		}
		_ = os.RemoveAll(s.dir)
		_ = s.lock.Close()
	})
}

// storeDir makes a folder for the store's data below TMPDIR, else /tmp, /var/tmp,
// /dev/shm: the first that is writable. It also removes the folders of killed processes
// (their lock is free).
func storeDir() (string, *os.File, error) {
	var errs []error
	for _, base := range []string{os.Getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"} {
		if base == "" {
			continue
		}
		sweep(base)
		var fs unix.Statfs_t
		if err := unix.Statfs(base, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) < storeRoom {
			errs = append(errs, fmt.Errorf("%s has %d MB left", base, fs.Bavail*uint64(fs.Bsize)>>20))
			continue
		}
		dir, lock, err := lockedDir(base)
		for tries := 0; tries < 3 && (errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK)); tries++ {
			dir, lock, err = lockedDir(base) // another launch removed the last as abandoned
		}
		if err == nil {
			return dir, lock, nil
		}
		errs = append(errs, err)
	}
	return "", nil, fmt.Errorf("%w: %w", ErrNoRoom, errors.Join(errs...))
}

// lockedDir makes one folder and locks it. Until then another process may remove the
// folder, which it does before it releases the lock.
func lockedDir(base string) (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp(base, "launch-store-"); err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, "lock")
	lock, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			_, err = os.Stat(path)
		}
	}
	if err != nil {
		_ = lock.Close() // nil is fine
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

// sweep removes the store folders below base whose owner is dead. A folder without a
// lock is new, or not launch's: it remains for an hour.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, "launch-store-*"))
	for _, d := range dirs {
		f, err := os.OpenFile(filepath.Join(d, "lock"), os.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			if st, e := os.Stat(d); e == nil && errors.Is(err, os.ErrNotExist) && time.Since(st.ModTime()) > time.Hour {
				_ = os.RemoveAll(d)
			}
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(d)
		}
		_ = f.Close()
	}
}
