package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"launch/rendezvous/protocol"
)

// Server is an embedded store: an etcd of one member that lives as long as the job
// needs it, and deletes its data at the end.
type Server struct {
	etcd   *etcdserver.EtcdServer
	grpc   *grpc.Server
	listen []net.Listener
	gate   *gate
	stop   context.CancelFunc // ends the ledger
	order  string             // of the store; see Precedence
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
	return serve(ctx, job, listen, keys)
}

func serve(ctx context.Context, job string, listen []netip.AddrPort, keys *TLS, more ...grpc.ServerOption) (
	s *Server, err error) {
	hostOnce()
	s = &Server{failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			s.Close()
			s, err = nil, fmt.Errorf("serve the store on %v: %w", listen, err)
		}
	}()
	for _, at := range listen {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			return s, ErrPortTaken
		}
		if err != nil {
			return s, err
		}
		s.listen = append(s.listen, l)
	}
	debug.SetGCPercent(garbage) // not where another process has the port: this one hosts nothing
	if s.dir, s.lock, err = storeDir(); err != nil {
		return s, fmt.Errorf("make a folder for the store: %w", err)
	}
	etcd, err := newServer(s.config())
	if err != nil {
		return s, err
	}
	s.etcd = etcd
	etcd.Start()
	if err := s.lead(ctx); err != nil {
		return s, err
	}
	s.gate = &gate{kv: v3rpc.NewQuotaKVServer(etcd), leases: v3rpc.NewQuotaLeaseServer(etcd),
		watches: v3rpc.NewWatchServer(etcd), job: job, own: protocol.KeysOf(job), known: keys != nil, book: newLedger()}
	s.order = orderOf(listen)
	if err := s.sign(ctx, job); err != nil {
		return s, fmt.Errorf("sign the store: %w", err)
	}
	var life context.Context
	life, s.stop = context.WithCancel(context.Background())
	go s.watchLedger(life)
	s.grpc = s.services(keys, more)
	for _, l := range s.listen {
		if job != "" && keys == nil { // `launch store` serves all that reach it
			l = ownUsers{l}
		}
		go func() { _ = s.grpc.Serve(l) }()
	}
	return s, nil
}

// lead waits until the only member leads. It would wait for an election first. So it gets the message by which a leader
// hands over, which begins one at once (go.etcd.io/raft, MsgTimeoutNow), again until it has applied its own membership.
func (s *Server) lead(ctx context.Context) error {
	id := uint64(s.etcd.MemberID())
	now := &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), To: &id, From: &id}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		_ = s.etcd.Process(ctx, now) // without it, an election follows after a few ticks
		select {
		case <-s.etcd.ReadyNotify():
			return nil
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// newServer is etcd's, whose panic about files that it cannot make is an error.
func newServer(c config.ServerConfig) (etcd *etcdserver.EtcdServer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("start etcd: %v", p)
		}
	}()
	return etcdserver.NewServer(c)
}

// services returns the gRPC server of what a node needs: what is behind the gate, and the call
// Enter. etcd's other services (users, members, snapshots) and its web pages are not served.
func (s *Server) services(keys *TLS, opts []grpc.ServerOption) *grpc.Server {
	opts = append(opts,
		grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		grpc.StaticConnWindowSize(window), grpc.StaticStreamWindowSize(window),
		grpc.MaxRecvMsgSize(int(s.etcd.Cfg.MaxRequestBytesWithOverhead())), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minKeepalive}),
	)
	if keys != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(keys.Server)))
	}
	g := grpc.NewServer(append(opts, survivors()...)...)
	s.gate.register(g)
	g.RegisterService(s.service(), s)
	return g
}

// handshake is how long a client may take for TLS and HTTP/2.
const handshake = 10 * time.Second

// minKeepalive is how often a client may ask whether the connection lives. etcd's clients ask
// at most every 10 s.
const minKeepalive = 5 * time.Second

// config returns the settings of etcd for this store. What is not explained is etcd's own
// default (server/embed/config.go, which links much that a store does not need).
func (s *Server) config() config.ServerConfig {
	lg := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(failure{s.dir, s.failed}))
	const name = "launch"
	// The only member has no peers: etcd needs an address for it, at which no process listens.
	peer := types.MustNewURLs([]string{"http://127.0.0.1:2380"})
	return config.ServerConfig{
		Name: name, DataDir: filepath.Join(s.dir, "d"), Logger: lg,
		PeerURLs: peer, InitialPeerURLsMap: types.URLsMap{name: peer}, NewCluster: true,
		TickMs: 100, ElectionTicks: 2, InitialElectionTickAdvance: true, // each tick costs the host
		UnsafeNoFsync: true, // the data ends with the process: no need to survive a power cut
		// The log of requests is kept in memory until the next snapshot, for members that this store has none of.
		SnapshotCount: 1000, SnapshotCatchUpEntries: 10,
		MaxSnapFiles: 1, MaxWALFiles: 1, BackendFreelistType: "hashmap",
		MaxTxnOps: 128, MaxRequestBytes: maxRequest, QuotaBackendBytes: quota,
		WarningApplyDuration: 100 * time.Millisecond, WarningUnaryRequestDuration: 300 * time.Millisecond,
		AuthToken: "simple", TokenTTL: 300, BcryptCost: 10,
		DowngradeCheckTime: 5 * time.Second, CompactHashCheckTime: time.Minute,
		ServerFeatureGate: features.NewDefaultServerFeatureGate(name, lg), Metrics: "basic",
		MaxLearners: membership.DefaultMaxLearners, V2Deprecation: config.V2DeprDefault,
	}
}

// Endpoints returns the addresses (host:port) of the store.
func (s *Server) Endpoints() []string {
	var out []string
	for _, l := range s.listen {
		out = append(out, l.Addr().String())
	}
	return out
}

// sign writes the job of this store.
func (s *Server) sign(ctx context.Context, job string) error {
	host, _ := os.Hostname()
	v, err := json.Marshal(identity{Job: job, Host: host, PID: os.Getpid(), Order: s.order})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	_, err = s.gate.kv.Put(ctx, &pb.PutRequest{Key: []byte(storeKey), Value: v})
	return err
}

// Shut ends the listening: the next store may have the port. Nodes that are connected remain.
func (s *Server) Shut() {
	for _, l := range s.listen {
		_ = l.Close()
	}
}

// Drop removes the store's data, just before the process and the store end.
func (s *Server) Drop() { _ = os.RemoveAll(s.dir) }

// Close stops the store and removes its data. A request that is under way has graceful time to end.
func (s *Server) Close() {
	s.once.Do(func() {
		if s.grpc != nil {
			hard := time.AfterFunc(graceful, s.grpc.Stop)
			s.grpc.GracefulStop() // watches have no end: they last until Stop
			hard.Stop()
		}
		s.Shut()
		if s.stop != nil {
			s.stop()
		}
		if s.etcd != nil {
			s.etcd.Stop()
		}
		if s.dir != "" {
			_ = os.RemoveAll(s.dir)
			_ = s.lock.Close()
		}
	})
}

// graceful is how long Close waits for requests.
const graceful = 100 * time.Millisecond

// storeDir makes a folder for the store's data below TMPDIR, else /tmp, /var/tmp,
// /dev/shm: the first that is writable. It also removes those of killed processes.
func storeDir() (string, *os.File, error) {
	if err := largeFiles(); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
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
		if err == nil {
			return dir, lock, nil
		}
		errs = append(errs, err)
	}
	return "", nil, fmt.Errorf("%w: %w", ErrNoRoom, errors.Join(errs...))
}

// largeFiles lifts this process's limit on the size of a file (ulimit -f) to what the store needs, or returns
// an error: etcd would panic there.
func largeFiles() error {
	var has unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &has); err != nil || has.Cur >= storeRoom {
		return nil
	}
	want := unix.Rlimit{Cur: storeRoom, Max: max(has.Max, storeRoom)}
	if unix.Setrlimit(unix.RLIMIT_FSIZE, &want) == nil { // a user up to the hard limit, root beyond it
		return nil
	}
	return fmt.Errorf("a file may have %d KiB (ulimit -f), and the store's need %d: %w", has.Cur>>10, storeRoom>>10,
		unix.EFBIG)
}

// lockFile is the file of a store's folder that its process keeps locked. It holds marker, written once it
// is locked: without that the folder is not launch's.
const lockFile, marker = "lock", "launch store\n"

// lockedDir makes one folder and locks it.
func lockedDir(base string) (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp(base, "launch-store-"); err != nil {
		return "", nil, err
	}
	lock, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			_, err = lock.WriteString(marker)
		}
		err = errors.Join(err, mappable(lock))
	}
	if err != nil {
		_ = lock.Close() // nil is fine
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

// mappable returns an error if a file cannot be mapped as etcd maps its own: not every file system can, and
// ulimit -v may forbid it.
func mappable(f *os.File) error {
	m, err := unix.Mmap(int(f.Fd()), 0, mapped, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return &os.PathError{Op: "map", Path: f.Name(), Err: err}
	}
	return unix.Munmap(m)
}

// storeName is the form of a folder's name that os.MkdirTemp makes.
var storeName = regexp.MustCompile(`^launch-store-[0-9]+$`)

// sweep removes the store folders of this user below base whose process has ended.
func sweep(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if dir := filepath.Join(base, e.Name()); storeName.MatchString(e.Name()) && mine(os.Lstat(dir)) && e.IsDir() {
			if lock := abandoned(dir); lock != nil {
				_ = os.RemoveAll(dir) // follows no symlink
				_ = lock.Close()
			}
		}
	}
}

// abandoned returns the lock of a store folder if no process has it; nil: one has, or the folder is not launch's.
func abandoned(dir string) *os.File {
	const flags = os.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK // a FIFO does not block
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), flags, 0)
	if err != nil {
		return nil
	}
	text := make([]byte, len(marker)+1)
	if mine(lock.Stat()) && unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		if n, _ := lock.ReadAt(text, 0); string(text[:n]) == marker {
			return lock
		}
	}
	_ = lock.Close()
	return nil
}

// mine returns whether this user owns a folder or a regular file.
func mine(info os.FileInfo, err error) bool {
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
