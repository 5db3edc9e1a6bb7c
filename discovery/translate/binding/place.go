package binding

// Place is one address with a port.
type Place struct {
	Bind string
	Port uint32
}

// At is the main address with a port.
func (b Binding) At(port uint32) Place { return Place{b.Binds[0], port} }
