package rendezvous

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// startEtcd starts an external etcd.
func startEtcd(t *testing.T, scheme string, edit func(*embed.Config)) string {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	any0 := url.URL{Scheme: scheme, Host: "127.0.0.1:0"}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{any0}, []url.URL{any0}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	edit(cfg)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return scheme + "://" + e.Clients[0].Addr().String()
}

func try(t *testing.T, endpoint string, a Access) (*clientv3.Client, error) {
	t.Helper()
	return Connect(short(t, 8*time.Second), Store{Endpoints: []string{endpoint}, Access: a}, nil)
}

func TestAnEtcdWithUsersLetsInWhoItKnowsAlsoWhenTheirTokenEnds(t *testing.T) {
	endpoint := startEtcd(t, "http", func(c *embed.Config) { c.AuthTokenTTL = 1 })
	root, err := try(t, endpoint, Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx := short(t, 30*time.Second)
	for _, step := range []func() error{
		func() error { _, err := root.UserAdd(ctx, "root", "r"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := root.RoleAdd(ctx, "job"); return err },
		func() error {
			_, err := root.RoleGrantPermission(ctx, "job", "/launch/", clientv3.GetPrefixRangeEnd("/launch/"),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := root.UserAdd(ctx, "me", "secret"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "me", "job"); return err },
		func() error { _, err := root.UserAdd(ctx, "nobody", "n"); return err },
		func() error { _, err := root.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil && !strings.Contains(err.Error(), "role name already exists") {
			t.Fatal(err)
		}
	}
	for name, a := range map[string]Access{
		"no user": {}, "wrong password": {User: "me", Password: "x"}, "no rights": {User: "nobody", Password: "n"},
	} {
		began := time.Now()
		c, err := try(t, endpoint, a)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrAccess) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %s, want to be refused at once", name, err, time.Since(began))
		}
	}
	cli, err := try(t, endpoint, Access{User: "me", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	s := Enter(ctx, cli, Config{Job: "j", Self: Member{Index: -1, Size: 2, Host: "a"}, TTL: testTTL})
	defer s.Leave("")
	select { // longer than a token and a lease
	case <-time.After(4 * time.Second):
	case <-ctx.Done():
	}
	other := Enter(ctx, cli, Config{Job: "j", Self: Member{Index: -1, Size: 2, Host: "c"}, TTL: testTTL})
	defer other.Leave("")
	for _, n := range []*Session{s, other} {
		if _, err := n.Join(ctx, time.Hour); err != nil {
			t.Error(err)
		}
	}
}

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(name string, ips []net.IP) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: a.cert == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", raw)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func TestAnEtcdWithCertificatesIsBelievedAndBelieves(t *testing.T) {
	ca := newAuthority(t)
	ca.issue("server", []net.IP{net.IPv4(127, 0, 0, 1)})
	ca.issue("client", nil)
	endpoint := startEtcd(t, "https", func(c *embed.Config) {
		c.ClientTLSInfo = transport.TLSInfo{CertFile: ca.file("server.pem"), KeyFile: ca.file("server.key"),
			TrustedCAFile: ca.file("ca.pem"), ClientCertAuth: true}
	})
	for name, tc := range map[string]struct {
		a    Access
		want string
	}{
		"nothing":        {Access{}, "unknown authority"},
		"no certificate": {Access{CA: ca.file("ca.pem")}, "certificate required"},
		"no key":         {Access{CA: ca.file("ca.pem"), Cert: ca.file("client.pem")}, "one is missing"},
		"no such file":   {Access{CA: ca.file("nix.pem")}, "nix.pem"},
		"not a file for": {Access{CA: ca.file("ca.key")}, "has no PEM certificate"},
	} {
		began := time.Now()
		c, err := try(t, endpoint, tc.a)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrAccess) || !strings.Contains(err.Error(), tc.want) || time.Since(began) > 6*time.Second {
			t.Errorf("%s: %v after %s, want %q", name, err, time.Since(began), tc.want)
		}
	}
	c, err := try(t, endpoint, Access{CA: ca.file("ca.pem"), Cert: ca.file("client.pem"), Key: ca.file("client.key")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(context.Background(), "/launch/x"); err != nil {
		t.Error(err)
	}
}

func TestCleanForgetsOnlyJobsThatAreOver(t *testing.T) {
	endpoint := startEtcd(t, "http", func(*embed.Config) {})
	cli, err := try(t, endpoint, Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	ctx := short(t, 20*time.Second)
	s := Enter(ctx, cli, Config{Job: "j", Self: Member{Index: -1, Size: 1, Host: "a"}, TTL: testTTL})
	if _, err := s.Join(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	if here, err := Clean(ctx, cli, "j"); err != nil || here != 1 {
		t.Errorf("while it runs: %d, %v", here, err)
	}
	s.Leave("")
	if here, err := Clean(ctx, cli, "j"); err != nil || here != 0 {
		t.Errorf("when it is over: %d, %v", here, err)
	}
	if r, err := cli.Get(ctx, "/launch/", clientv3.WithPrefix()); err != nil || len(r.Kvs) > 0 {
		t.Errorf("left: %v, %v", r.Kvs, err)
	}
}
