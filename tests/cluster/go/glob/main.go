// Command glob says which of the paths on stdin a pattern matches, with the library and the call of Argo CD
// (argo-cd v3.2.1 util/glob/glob.go: no separators, so that * matches slashes too).
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/gobwas/glob"
)

func main() {
	pattern := glob.MustCompile(os.Args[1])
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if pattern.Match(lines.Text()) {
			fmt.Println(lines.Text())
		}
	}
}
