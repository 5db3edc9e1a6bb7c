package node

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// containerLog is what a container has written: a line after its time, as a kubelet keeps it.
type containerLog struct {
	file *os.File
	mu   sync.Mutex
	half []byte // a line that has not ended
}

// createLog creates the log of a container of a Pod.
func (r *running) createLog(container string) (*containerLog, error) {
	file, err := os.Create(r.logFile(container))
	return &containerLog{file: file}, err
}

func (r *running) logFile(container string) string { return filepath.Join(r.folder, container+".log") }

// Write implements io.Writer.
func (l *containerLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.half = append(l.half, text...)
	now := time.Now().UTC().Format(time.RFC3339Nano)
	for {
		line, rest, ended := strings.Cut(string(l.half), "\n")
		if !ended {
			return len(text), nil
		}
		if _, err := fmt.Fprintf(l.file, "%s %s\n", now, line); err != nil {
			return 0, err
		}
		l.half = []byte(rest)
	}
}

// logs answers the API server when somebody reads the log of a container (kubectl logs).
func (n *Node) logs(w http.ResponseWriter, request *http.Request) {
	r := n.run(types.NamespacedName{Namespace: request.PathValue("namespace"), Name: request.PathValue("pod")})
	if r == nil {
		http.Error(w, "the node does not run this Pod", http.StatusNotFound)
		return
	}
	file, err := os.Open(r.logFile(filepath.Base(request.PathValue("container"))))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer file.Close()
	since, _ := time.Parse(time.RFC3339, request.URL.Query().Get("sinceTime")) // without one, all of it
	if err := copySince(w, file, since); err != nil {
		n.t.Logf("tell the log of a Pod: %v", err)
	}
}

// copySince copies the lines that were written since a time, without their times.
func copySince(to io.Writer, from io.Reader, since time.Time) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		at, line, _ := strings.Cut(lines.Text(), " ")
		if written, err := time.Parse(time.RFC3339Nano, at); err != nil || written.Before(since) {
			continue
		}
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return lines.Err()
}
