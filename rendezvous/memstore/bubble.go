package memstore

import _ "unsafe" // for go:linkname

// valCtxCh is a channel of clientv3 that never closes, made when the process starts. Each watch
// leaves a goroutine that waits for it, and a goroutine that waits for a channel from outside a
// synctest bubble stops the bubble's clock from moving.
//
//go:linkname valCtxCh go.etcd.io/etcd/client/v3.valCtxCh
var valCtxCh chan struct{}

// Bubbles lets clientv3's watches run inside testing/synctest. A nil channel never closes either,
// and needs no goroutine (package context). Call it from TestMain, before there is any client.
func Bubbles() { valCtxCh = nil }
