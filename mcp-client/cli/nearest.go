package cli

import "github.com/spf13/cobra"

// nearest is the known name that somebody may have meant who mistyped one, "" if none is near. It is measured as cobra does
// for the names of commands, so that both are suggested alike.
func nearest(name string, known []string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range known {
		names.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	if near := names.SuggestionsFor(name); len(near) > 0 {
		return near[0]
	}
	return ""
}
