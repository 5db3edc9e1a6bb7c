package ads

// Envoy goes on with a listener that was replaced until its connections have ended, and needs what that finds its routes by; nobody tells when
// that is. So of something that is gone altogether the client keeps what it has: it costs it memory, and nobody else anything.

// standing tells, quickest in the order of names, whether a set has anything of what a name says that its resource belongs to.
func (s *Set) standing() func(name string) bool {
	known, last, is := false, "", false
	return func(name string) bool {
		if owner := ownerOf(name); !known || owner != last {
			known, last, is = true, owner, false
			for range s.belongingTo(owner) {
				is = true
				break
			}
		}
		return is
	}
}
