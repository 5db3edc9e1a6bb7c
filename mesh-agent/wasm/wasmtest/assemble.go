package wasmtest

// Small is a module as Module makes one, put together byte by byte: Envoy compiles it in a
// millisecond, and what the Go compiler makes in seconds.
func Small(value string) []byte {
	return assemble("proxy_add_header_map_value", "plugin", value, export{"proxy_on_response_headers", ofThree, []byte{
		0x41, 2, 0x41, nameAt, 0x41, byte(len("plugin")), 0x41, valueAt, 0x41, byte(len(value)), 0x10, 0, 0x1a, 0x41, 0, // call 0, drop, continue
	}})
}

// SmallOnConnections is a module that reads the bytes of connections: it puts a value before those
// that the server sends.
func SmallOnConnections(value string) []byte {
	const fromServer = 3
	return assemble("proxy_set_buffer_bytes", "", value, export{"proxy_on_new_connection", ofOne, answers(0)}, export{"proxy_on_upstream_data", ofThree, []byte{
		0x41, fromServer, 0x41, 0, 0x41, 0, 0x41, valueAt, 0x41, byte(len(value)), 0x10, 0, 0x1a, 0x41, 0,
	}})
}

// export is a function that Envoy calls.
type export struct {
	name      string
	of        byte // its type
	operation []byte
}

// The types of functions, by their parameters: i32, as what they return, if they do.
const (
	imported byte = iota
	ofNothing
	ofOne
	ofTwo
	ofTwoWithoutResult
	ofThree
	ofOneWithoutResult
)

// Where the texts are.
const nameAt, valueAt = byte(0), byte(16)

func answers(n byte) []byte { return []byte{0x41, n} } // i32.const n

func function(parameters, results int) []byte {
	const i32 = 0x7f
	out := []byte{0x60, byte(parameters)}
	for range parameters {
		out = append(out, i32)
	}
	if out = append(out, byte(results)); results > 0 {
		out = append(out, i32)
	}
	return out
}

// assemble makes a module that calls one function of Envoy's, has two texts, and exports functions
// beside those that all modules have.
func assemble(calls, name, value string, more ...export) []byte {
	types := [][]byte{function(5, 1), function(0, 0), function(1, 1), function(2, 1), function(2, 0), function(3, 1), function(1, 0)}
	exports := append([]export{
		{"proxy_abi_version_0_2_1", ofNothing, nil},
		{"proxy_on_memory_allocate", ofOne, []byte{0x41, 0x80, 0x20}}, // at 4096
		{"proxy_on_vm_start", ofTwo, answers(1)},
		{"proxy_on_configure", ofTwo, answers(1)},
		{"proxy_on_context_create", ofTwoWithoutResult, nil},
		{"proxy_on_done", ofOne, answers(1)},
		{"proxy_on_delete", ofOneWithoutResult, nil},
	}, more...)
	var declared, exported, bodies [][]byte
	exported = append(exported, append(text("memory"), 2, 0))
	for i, e := range exports {
		declared = append(declared, []byte{e.of})
		exported = append(exported, append(text(e.name), 0, byte(i+1)))
		bodies = append(bodies, sized(append(append([]byte{0}, e.operation...), 0x0b)))
	}
	data := func(at byte, content string) []byte { return append([]byte{0, 0x41, at, 0x0b}, text(content)...) }
	out := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	for _, s := range []struct {
		id    byte
		items [][]byte
	}{
		{1, types},
		{2, [][]byte{append(append(text("env"), text(calls)...), 0, imported)}},
		{3, declared},
		{5, [][]byte{{0, 1}}},
		{7, exported},
		{10, bodies},
		{11, [][]byte{data(nameAt, name), data(valueAt, value)}},
	} {
		section := number(len(s.items))
		for _, item := range s.items {
			section = append(section, item...)
		}
		out = append(append(out, s.id), sized(section)...)
	}
	return out
}

// number encodes a number.
func number(n int) (out []byte) {
	for ; n > 0x7f; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

// sized puts the size before some bytes.
func sized(content []byte) []byte { return append(number(len(content)), content...) }

func text(s string) []byte { return sized([]byte(s)) }
