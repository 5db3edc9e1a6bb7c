package arguments

import "strings"

// Resource are the kind and the name of a resource, as somebody wrote them.
type Resource struct{ Kind, Name string }

// ResourceAmong returns the resource that arguments name first, as KIND/NAME or KIND NAME. It is for what says how to go on
// with a resource, where something else is expected.
func ResourceAmong(args []string) (r Resource, named bool) {
	if len(args) == 0 {
		return r, false
	}
	r.Kind, r.Name, named = strings.Cut(args[0], "/")
	if !named && len(args) > 1 {
		r.Name, named = args[1], true
	}
	_, err := Parse([]string{r.Kind, r.Name})
	return r, named && r.Name != "" && err == nil
}

// String is KIND/NAME.
func (r Resource) String() string { return r.Kind + "/" + r.Name }

// aboutResource names the resource of the arguments in a hint that is about one.
func aboutResource(hint string, args []string) string {
	r, named := ResourceAmong(args)
	if !named {
		return hint
	}
	return strings.NewReplacer("KIND/NAME", r.String(), "KIND NAME", r.Kind+" "+r.Name).Replace(hint)
}
