package service

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// longestName is what the names of resources may have.
const longestName = 253

// Name is the name of the resource of a service: "consul-dc1.web". The registry's name has no dot, so
// no two registries have a name in common. A service whose name is none of a resource gets one that
// ends with a hash of it.
func Name(registry, service string) string {
	name := strings.Map(nameRune, service)
	if name == service && len(registry)+1+len(name) <= longestName && ends(name) {
		return registry + "." + name
	}
	sum := sha256.Sum256([]byte(service))
	hash := hex.EncodeToString(sum[:8])
	if most := longestName - len(registry) - len("..") - len(hash); len(name) > most {
		name = name[:most]
	}
	return registry + "." + name + "." + hash
}

// nameRune replaces what names of resources cannot have.
func nameRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
		return r
	}
	return '-'
}

// ends reports whether a name can end a resource's.
func ends(name string) bool {
	return name != "" && !strings.ContainsAny(name[len(name)-1:], "-_.")
}
