# Asks for each URL with Ruby's open-uri.
require 'open-uri'

ARGV.each do |url|
  begin
    answer = URI.parse(url).open
  rescue OpenURI::HTTPError => e
    answer = e.io
  end
  print "HTTP/1.1 #{answer.status[0]}\nCourtesy-Record: #{answer.meta['courtesy-record']}\n\n#{answer.read}\n"
end
