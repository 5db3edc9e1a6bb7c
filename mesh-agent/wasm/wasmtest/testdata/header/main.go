// Command header is a Wasm module that adds the header "plugin" to responses. It needs no SDK: it
// exports what Envoy calls (ABI 0.2.1 of proxy-wasm), and imports what it calls in turn.
package main

import "unsafe"

// value is what the header says. Who builds the module puts another text of the same length there.
const value = "the-value-of-the-header"

//go:wasmimport env proxy_add_header_map_value
func addHeader(headers uint32, name unsafe.Pointer, nameSize uint32, value unsafe.Pointer, valueSize uint32) uint32

//go:wasmexport proxy_abi_version_0_2_1
func abiVersion() {}

// kept is memory that Envoy writes to.
var kept = map[uintptr][]byte{}

//go:wasmexport proxy_on_memory_allocate
func allocate(size uint32) unsafe.Pointer {
	b := make([]byte, size)
	p := unsafe.Pointer(&b[0])
	kept[uintptr(p)] = b
	return p
}

//go:wasmexport proxy_on_vm_start
func onVMStart(_, _ uint32) uint32 { return 1 }

//go:wasmexport proxy_on_configure
func onConfigure(_, _ uint32) uint32 { return 1 }

//go:wasmexport proxy_on_context_create
func onContextCreate(_, _ uint32) {}

const responseHeaders = 2

//go:wasmexport proxy_on_response_headers
func onResponseHeaders(_, _, _ uint32) uint32 {
	name, content := []byte("plugin"), []byte(value)
	addHeader(responseHeaders, unsafe.Pointer(&name[0]), uint32(len(name)), unsafe.Pointer(&content[0]), uint32(len(content)))
	return 0
}

//go:wasmexport proxy_on_done
func onDone(uint32) uint32 { return 1 }

//go:wasmexport proxy_on_delete
func onDelete(uint32) {}

func main() {}
