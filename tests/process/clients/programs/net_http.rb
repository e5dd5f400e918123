# Asks for each URL with Ruby's net/http.
require 'net/http'

ARGV.each do |url|
  answer = Net::HTTP.get_response(URI(url))
  print "HTTP/1.1 #{answer.code}\nCourtesy-Record: #{answer['Courtesy-Record']}\n\n#{answer.body}\n"
end
