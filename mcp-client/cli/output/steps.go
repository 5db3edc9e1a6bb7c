package output

import "k8s.io/client-go/util/jsonpath"

// Items is the step of a path into the items of a list, some or all of them.
const Items = "[]"

// Steps are the steps of each path within a template, by the names of fields and Items: as far as they are the same whatever the
// values are.
func (p Path) Steps() (all [][]string) {
	parsed, err := jsonpath.Parse("path", string(p))
	if err != nil {
		return nil // ParsePath has told of it
	}
	for _, node := range parsed.Root.Nodes {
		if list, is := node.(*jsonpath.ListNode); is {
			if steps := stepsOf(list); len(steps) > 0 {
				all = append(all, steps)
			}
		}
	}
	return all
}

func stepsOf(list *jsonpath.ListNode) (steps []string) {
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *jsonpath.FieldNode:
			if n.Value != "" { // of the root, which "$" and "@" are, too
				steps = append(steps, n.Value)
			}
		case *jsonpath.ArrayNode, *jsonpath.FilterNode:
			steps = append(steps, Items)
		default:
			return steps
		}
	}
	return steps
}
