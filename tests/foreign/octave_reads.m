for i = 0:3
  name = sprintf('plt%04d.h5', i);
  d = load(name);
  printf('%d:', i); printf(' %g', d.x); printf('\n');
end
