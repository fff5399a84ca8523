//go:build linux && cgo && !noverbs

package verbs

/*
#include <stdlib.h>
#include <unistd.h>
#include "session.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// useGPU allocates memory of a GPU for the device: by a DMA-BUF, else by its address.
func (s *session) useGPU(g GPU, stride int) *Error {
	var missing C.int
	if why := C.lv_gpu_load(s.c, &missing); why != nil {
		return ofLoad(missing != 0, C.GoString(why))
	}
	pci := C.CString(g.PCI)
	defer C.free(unsafe.Pointer(pci))
	if e := s.cuda(stepGPU, C.lv_gpu_open(s.c, pci)); e != nil {
		return e
	}
	if e := s.cuda(stepGPU, C.lv_gpu_alloc(s.c, C.size_t(stride))); e != nil {
		return e
	}
	dmabuf := s.shareDMABuf()
	if dmabuf == nil {
		s.end.Memory = byDMABuf
		return nil
	}
	if !g.Peermem {
		return noWayToGPU(g, s.end.Device, dmabuf, nil)
	}
	if errno := C.lv_memory_share(s.c); errno != 0 {
		return noWayToGPU(g, s.end.Device, dmabuf, syscall.Errno(errno))
	}
	s.end.Memory = byPeermem
	return nil
}

// shareDMABuf registers a DMA-BUF of the memory.
func (s *session) shareDMABuf() error {
	if s.lib.c.reg_dmabuf_mr == nil {
		return errors.New("libibverbs is older than rdma-core 34")
	}
	var fd C.int
	if e := s.cuda(stepGPUShare, C.lv_gpu_export(s.c, &fd)); e != nil {
		return e
	}
	if fd < 0 {
		return errors.New("the driver does not support it: this takes its open kernel modules, release 515 or later, " +
			"Linux 5.12")
	}
	errno := C.lv_dmabuf_share(s.c, fd)
	C.close(fd) // the registration holds it
	switch err := syscall.Errno(errno); err {
	case 0:
		return nil
	case syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT, syscall.ENOSYS, syscall.EINVAL:
		return fmt.Errorf("%s or its driver does not support it: %w", s.end.Device, err)
	default:
		return fmt.Errorf("register it: %w", err)
	}
}

// cuda returns the result of a function of gpu.h as an error.
func (s *session) cuda(step string, result C.int) *Error {
	if result == 0 {
		return nil
	}
	return ofCUDA(step, s.end.GPU, C.GoString(s.c.gpu.call), int(result), C.GoString(C.lv_gpu_error(s.c, result)))
}
