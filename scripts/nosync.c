/* Preloaded into the servers of the tests (scripts/server.sh): a sync returns at once. The tests kill servers, never the machine, and what
 * a killed process has written is in the page cache; the syncs of a dozen servers at once are most of what their tests waited for.
 * It uses no C library, so one build serves servers that bring libraries of different ages. */
int fsync(int file) { (void)file; return 0; }
int fdatasync(int file) { (void)file; return 0; }
int syncfs(int file) { (void)file; return 0; }
int sync_file_range(int file, long offset, long bytes, unsigned flags) {
    (void)file; (void)offset; (void)bytes; (void)flags;
    return 0;
}
