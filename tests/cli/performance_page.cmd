# docs/performance.md and its charts are what bench report makes of the committed results.
$ mkdir -p bench docs; cp -r $SRC/bench/results bench/results; adlgen bench report; for f in $(ls docs); do cmp docs/$f $SRC/docs/$f; done; ls $SRC/docs/performance*.svg | wc -l; ls docs/*.svg | wc -l
36
36
