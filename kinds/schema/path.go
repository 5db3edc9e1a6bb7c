package schema

import (
	"regexp"
	"strconv"
)

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// Member is the path of a member of the object at path.
func Member(path, name string) string {
	switch {
	case !plainName.MatchString(name):
		return path + `["` + name + `"]`
	case path == "":
		return name
	}
	return path + "." + name
}

// Item is the path of an item of the list at path.
func Item(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }
