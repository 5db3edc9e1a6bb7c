package arguments

import "github.com/spf13/cobra"

// Nearest returns the known name closest to a mistyped one, "" if none is close. It uses cobra's
// distance for names of commands, so all suggestions work alike.
func Nearest(name string, known []string) string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range known {
		names.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	if near := names.SuggestionsFor(name); len(near) > 0 {
		return near[0]
	}
	return ""
}
