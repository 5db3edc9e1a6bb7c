package kinds

// LabelsWithin reports whether labels has every label of the selector. An empty selector asks for
// nothing.
func LabelsWithin(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
