package schema

import "strconv"

// Member is the path of a member of the object at path.
func Member(path, name string) string {
	switch {
	case !plain(name):
		return path + `["` + name + `"]`
	case path == "":
		return name
	}
	return path + "." + name
}

// plain reports whether a name is of the form ^[A-Za-z_][A-Za-z0-9_-]*$. It is asked of each member of
// each resource, and a regular expression takes ten times as long.
func plain(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case i > 0 && ('0' <= c && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return name != ""
}

// Item is the path of an item of the list at path.
func Item(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }
