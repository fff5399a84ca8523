// Command stranger asks a store of launch for all that etcd's API has, as somebody would who reaches
// its port and does not belong to the job. It prints one line for each thing that it got, and ends with
// the number of them.
//
//	stranger HOST:PORT JOB
//	stranger serve MODE
//	stranger look HOST
//
// With serve it takes the store's port, and answers as no store does. With look it asks each port of the host that
// is a side channel what its node sees.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// tries bounds the flood; each try is a megabyte.
const tries = 400

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		fmt.Println(serve(os.Args[2]))
		os.Exit(100)
	}
	if len(os.Args) == 3 && os.Args[1] == "look" {
		look(os.Args[2])
		return
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: os.Args[1:2], DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		MaxCallSendMsgSize: 4 << 20})
	if err != nil {
		fmt.Println("connect:", err)
		os.Exit(100)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, "/launch/store"); err != nil {
		fmt.Println("is not let in:", err)
		return
	}
	root := "/launch/" + os.Args[2] + "/"
	i := intruder{Client: c}
	i.services(os.Args[1])
	i.keys(root)
	i.members(root)
	i.conditions(root)
	i.flood(root)
	os.Exit(i.got)
}

// intruder tries, and counts what it got.
type intruder struct {
	*clientv3.Client
	got int
}

func (c *intruder) try(what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := do(ctx)
	switch {
	case err == nil:
		fmt.Println("got:", what)
	case ctx.Err() != nil:
		fmt.Println("no answer:", what)
	default:
		return
	}
	c.got++
}

func (c *intruder) put(key, value string, conds ...clientv3.Cmp) {
	c.try("a write of "+key, func(ctx context.Context) error {
		r, err := c.Txn(ctx).If(conds...).Then(clientv3.OpPut(key, value)).Commit()
		if err == nil && len(r.Responses) == 0 {
			return errors.New("nothing was written")
		}
		return err
	})
}

func (c *intruder) remove(prefix string) {
	c.try("all gone below "+prefix, func(ctx context.Context) error {
		_, err := c.Delete(ctx, prefix, clientv3.WithPrefix())
		return err
	})
}

// services tries what no node needs.
func (c *intruder) services(at string) {
	c.try("the database", func(ctx context.Context) error {
		r, err := c.Snapshot(ctx)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		return err
	})
	c.try("a defragmentation", func(ctx context.Context) error { _, err := c.Defragment(ctx, at); return err })
	c.try("the status", func(ctx context.Context) error { _, err := c.Status(ctx, at); return err })
	c.try("the members", func(ctx context.Context) error { _, err := c.MemberList(ctx); return err })
	c.try("a member", func(ctx context.Context) error {
		_, err := c.MemberAdd(ctx, []string{"http://127.0.0.1:1"})
		return err
	})
	c.try("passwords", func(ctx context.Context) error { _, err := c.AuthEnable(ctx); return err })
	c.try("a user", func(ctx context.Context) error { _, err := c.UserAdd(ctx, "root", "x"); return err })
	c.try("a compaction", func(ctx context.Context) error { _, err := c.Compact(ctx, 3); return err })
	c.try("the leases", func(ctx context.Context) error { _, err := c.Leases(ctx); return err })
}

// keys tries to read, write and delete what no node does.
func (c *intruder) keys(root string) {
	c.try("all keys", func(ctx context.Context) error { _, err := c.Get(ctx, "", clientv3.WithFromKey()); return err })
	c.remove("")
	c.remove(root)
	c.remove(root + "m/")
	c.put("/launch/store", `{"job":"mine"}`)
	c.put("/mine", "x")
	c.put("/launch/other/c/conflict", `{"size": 2}`)
	c.put(root+"c/epoch", `{"n":9,"state":"open","size":1}`)
	c.put(root+"c/leader", `{"size":1}`)
	c.put(root+"w/0123456789abcdef/0000000", `{"rank":0}`)
	c.put(root+"c/r/1/go", `{}`)
}

// members tries to take a node's place, of which it may read: it could join as well.
func (c *intruder) members(root string) {
	members, err := c.Get(context.Background(), root+"m/", clientv3.WithPrefix())
	if err != nil || len(members.Kvs) == 0 {
		fmt.Println("sees no node:", err)
		c.got++
		return
	}
	for _, kv := range members.Kvs {
		key, lease := string(kv.Key), clientv3.LeaseID(kv.Lease)
		c.try("a node's lease", func(ctx context.Context) error { _, err := c.Revoke(ctx, lease); return err })
		c.put(key, string(kv.Value), clientv3.Compare(clientv3.LeaseValue(key), "=", lease))
	}
}

// conditions tries what only a leader does, under conditions that always hold.
func (c *intruder) conditions(root string) {
	leader, err := c.Get(context.Background(), root+"c/leader")
	if err != nil || len(leader.Kvs) == 0 {
		fmt.Println("sees no leader:", err)
		c.got++
		return
	}
	kv := leader.Kvs[0]
	var conds []clientv3.Cmp
	for _, key := range []string{root + "c/leader", root + "c/epoch", root + "m/0000000", root + "m/"} {
		none := clientv3.Compare(clientv3.CreateRevision(key), "=", 0).WithRange(key[:1])
		conds = append(conds, none, clientv3.Compare(clientv3.Version(key), ">", -1),
			clientv3.Compare(clientv3.ModRevision(key), "!=", -1),
			clientv3.Compare(clientv3.ModRevision(key).WithPrefix(), "<", 1<<62))
	}
	conds = append(conds, clientv3.Compare(clientv3.CreateRevision(string(kv.Key)), "=", kv.CreateRevision),
		clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision))
	c.put(root+"c/epoch", `{"n":9,"state":"open","size":1}`, conds...)
	c.put(root+"c/progress", `{"come":1,"want":1}`, conds...)
	c.put(root+"c/progress", `{"come":1,"want":1,"final":true}`)
	c.put(root+"c/late", `{"nonce":"0123456789abcdef","who":[],"closing":true}`)
	c.put(root+"c/r/1/go", `{}`, conds...)
	for what, op := range map[string]clientv3.Op{"the leader's end": clientv3.OpDelete(string(kv.Key)),
		"the job's end": clientv3.OpDelete(root, clientv3.WithPrefix())} {
		c.try(what, func(ctx context.Context) error {
			r, err := c.Txn(ctx).If(conds...).Then(op).Commit()
			if err == nil && !r.Succeeded {
				return errors.New("nothing was deleted")
			}
			return err
		})
	}
}

// flood writes as much as it can, in the way in which a node that is about to leave posts to a round.
func (c *intruder) flood(root string) {
	ctx, value := context.Background(), strings.Repeat("x", 1<<20)
	me := root + "m/a-stranger"
	lease, err := c.Grant(ctx, 60)
	if err == nil {
		_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(me), "=", 0)).
			Then(clientv3.OpPut(me, `{"id":"stranger","index":-1,"size":3,"left":"it only looks"}`,
				clientv3.WithLease(lease.ID))).Commit()
	}
	epoch := int64(0)
	if r, readErr := c.Get(ctx, root+"c/epoch"); readErr == nil && len(r.Kvs) > 0 {
		epoch = r.Kvs[0].ModRevision
	}
	for i := 0; err == nil && i < tries; i++ {
		var r *clientv3.TxnResponse
		r, err = c.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(me), "=", lease.ID),
			clientv3.Compare(clientv3.ModRevision(root+"c/epoch"), "=", epoch)).
			Then(clientv3.OpPut(fmt.Sprintf("%sp/9/x/%d", root, i), value, clientv3.WithLease(lease.ID))).Commit()
		if err == nil && !r.Succeeded {
			err = errors.New("its conditions do not hold")
		}
		if err != nil {
			fmt.Println("the flood ends after", i, "MB:", err)
		}
	}
	if err == nil {
		fmt.Println("got: a flood of", tries, "MB")
		c.got++
	}
}
